"""The project's own files: which ones, how they are read, and what they say. The files are the authority."""
