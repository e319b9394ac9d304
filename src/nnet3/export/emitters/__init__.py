"""The nodes that do what components do, a family a file."""

# every family, so that its types are registered
from nnet3.export.emitters import affine as affine
from nnet3.export.emitters import columns as columns
from nnet3.export.emitters import elementwise as elementwise
from nnet3.export.emitters import gates as gates
from nnet3.export.emitters import times as times
from nnet3.export.emitters import windows as windows
from nnet3.export.emitters.registry import EMITTERS, Emission, Emitted, EmittedKernels, emit

__all__ = ["EMITTERS", "Emission", "Emitted", "EmittedKernels", "emit"]
