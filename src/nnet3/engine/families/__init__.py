"""Families: programs for all lengths, found by continuing a few small ones."""
