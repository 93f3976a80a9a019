"""Doors to the operations. Nothing is decided here."""
