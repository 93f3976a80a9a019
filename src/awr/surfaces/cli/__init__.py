"""The command line, driven from the list of operations."""
