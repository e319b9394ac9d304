"""Sequence training with lattice-free MMI ("chain" models)."""
