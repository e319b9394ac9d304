"""Computation node types: one family a file, with functions for users and operations."""
