"""Lowering: from a graph of nodes and a request to a program of matrix commands; `lower.py` has all of it in a row."""
