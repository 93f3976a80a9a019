"""The Guardian of the Agent Control Standard: what is asked on the wire, what is answered, and what is kept of it."""
