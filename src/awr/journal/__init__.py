"""The only writer of runtime facts: append-only events, one revision per commit, and what is derived from them."""
