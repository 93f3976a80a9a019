"""Measurements as commands: each states what it ran, its ratio to a baseline of the same run, and its limits."""
