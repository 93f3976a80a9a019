"""What an agent must know now: required facts whole, optional ones as far as a budget of tokens goes."""
