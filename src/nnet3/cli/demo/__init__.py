"""`nnet3 demo`: train networks on real data, evaluate them, and report."""

from nnet3.cli.demo.command import command

__all__ = ["command"]
