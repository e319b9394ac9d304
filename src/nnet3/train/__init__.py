"""Training: minibatches, objectives, the trainer."""

from nnet3.stubs import attach_stub

# Imported when first asked for: what is done with files of examples need not wait for PyTorch.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
