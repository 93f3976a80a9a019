"""The doors for agents: the same operations as tools of the Model Context Protocol."""
