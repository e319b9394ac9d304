"""Discriminative training on lattices: MMI, boosted MMI, sMBR, MPFE (docs/discriminative.md)."""
