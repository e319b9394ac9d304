"""The computation node types: one family a file, each with its functions for users and its operations."""
