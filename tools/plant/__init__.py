"""Planted bugs: mistakes put into passes, families and the proof itself, to see whether the proof notices them."""
