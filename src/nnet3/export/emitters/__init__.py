"""The nodes that do what components do, a family a file."""

# every family, so that its types are registered
from nnet3.export.emitters import (
    affine as affine,
    columns as columns,
    elementwise as elementwise,
    gates as gates,
    times as times,
    windows as windows,
)
from nnet3.export.emitters.registry import EMITTERS, Emission, Emitted, EmittedKernels, emit

__all__ = ["EMITTERS", "Emission", "Emitted", "EmittedKernels", "emit"]
