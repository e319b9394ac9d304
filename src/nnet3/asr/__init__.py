"""Recognizers: from audio to words with a model directory of Vosk or Kaldi."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
