"""Facts and rules of AWR. Nothing here reads a file, a clock or a database."""
