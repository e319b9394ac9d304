"""A server of recognizers: the WebSocket protocol of vosk-server, many connections through one StreamComputer."""

from nnet3.stubs import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
