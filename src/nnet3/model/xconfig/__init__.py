"""Xconfigs: networks as lines of layers, expanded to nodes and components (docs/xconfig.md)."""
