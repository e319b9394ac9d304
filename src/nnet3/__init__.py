"""Kaldi nnet3 neural networks on PyTorch: read, compile, run, train and convert them without building Kaldi."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnet3 import components
    from nnet3.compiler import CompileOptions, ComputationCache, ComputationRequest, IoSpecification, compile
    from nnet3.compute import NnetComputer
    from nnet3.nnet import AcousticModel, Nnet, TransitionModel, load, load_nnet, load_transition_model
    from nnet3.train.chain import chain_loss
    from nnet3.train.torch_module import TorchModule

# Imported when first asked for, so that what needs no tensors, such as the command's help, need not wait for PyTorch.
_ROOM_OF = {
    "AcousticModel": "nnet3.nnet",
    "CompileOptions": "nnet3.compiler",
    "ComputationCache": "nnet3.compiler",
    "ComputationRequest": "nnet3.compiler",
    "IoSpecification": "nnet3.compiler",
    "Nnet": "nnet3.nnet",
    "NnetComputer": "nnet3.compute",
    "TorchModule": "nnet3.train.torch_module",
    "TransitionModel": "nnet3.nnet",
    "chain_loss": "nnet3.train.chain",
    "compile": "nnet3.compiler",
    "components": "nnet3.components",
    "load": "nnet3.nnet",
    "load_nnet": "nnet3.nnet",
    "load_transition_model": "nnet3.nnet",
}

__all__ = [
    "AcousticModel",
    "CompileOptions",
    "ComputationCache",
    "ComputationRequest",
    "IoSpecification",
    "Nnet",
    "NnetComputer",
    "TorchModule",
    "TransitionModel",
    "chain_loss",
    "compile",
    "components",
    "load",
    "load_nnet",
    "load_transition_model",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The public name, from the room where it lives."""
        if name not in _ROOM_OF:
            raise AttributeError(f"module 'nnet3' has no attribute '{name}'")
        room = importlib.import_module(_ROOM_OF[name])
        value = room if room.__name__ == f"nnet3.{name}" else getattr(room, name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
