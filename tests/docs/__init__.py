"""Documentation that is executed."""
