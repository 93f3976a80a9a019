"""What a caller may ask, one function each. Every surface is driven from the one list in `registry`."""
