"""The agent's side of the Agent Control Standard: what is asked of a Guardian, and what is done with its answer."""
