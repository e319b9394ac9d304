"""Training: minibatches, objectives, the trainer."""

import lazy_loader

# Imported when first asked for: what is done with files of examples need not wait for PyTorch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
