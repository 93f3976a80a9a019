"""The door for teams: many projects and authenticated clients behind one address, on the same operations."""
