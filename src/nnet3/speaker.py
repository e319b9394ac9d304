"""Speakers: who speaks, and who spoke when, with x-vectors and PLDA."""

from nnet3.stubs import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
