"""Computation node types: one family a file, each with functions for users and operations."""
