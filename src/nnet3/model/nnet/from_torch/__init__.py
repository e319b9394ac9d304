"""Stacks of modules of PyTorch as networks: the layers that are known, and the way through containers."""
