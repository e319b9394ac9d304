"""Records of what command lines do: see __main__.py."""
