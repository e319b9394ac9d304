"""Layer types, one family a file."""
