"""What modules of PyTorch give for one sequence of rows, each called with the order of dimensions that it wants."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from nnet3.model.nnet import Nnet

_CHANNELS_FIRST = nn.Conv1d | nn.BatchNorm1d | nn.Dropout1d


def settled(*modules: nn.Module) -> list[nn.Module]:
    """Returns the modules in test mode, with parameters and statistics that no initialisation gives."""
    for module in modules:
        module.eval()
        for name, tensor in module.state_dict().items():
            if "running_var" in name:
                tensor.uniform_(0.5, 2.0)
            elif tensor.is_floating_point() and tensor.dim() == 1:
                tensor.normal_()
    return list(modules)


def values_of(modules: Iterable[nn.Module], rows: Tensor) -> Tensor:
    """Returns (rows, outputs) for (rows, inputs)."""
    with torch.no_grad():
        for module in modules:
            if isinstance(module, _CHANNELS_FIRST):
                rows = module(rows.t()[None])[0].t()
            elif isinstance(module, nn.RNNBase):
                rows = module(rows)[0]  # without sequences there is no batch_first
            else:
                rows = module(rows)
    return rows


def with_context(nnet: Nnet, features: Tensor) -> Tensor:
    """Returns the features with the first and last row as often as `Nnet.compute` repeats them."""
    return torch.cat(
        [features[:1].expand(nnet.left_context, -1), features, features[-1:].expand(nnet.right_context, -1)]
    )


def largest_difference(modules: list[nn.Module], num_frames: int, factor: int = 1) -> float:
    """Returns the largest difference, in float64, between modules and the network that is made of them."""
    modules = [module.double() for module in modules]
    nnet = Nnet.from_torch(modules)
    features = torch.randn(num_frames, nnet.input_dims["input"], dtype=torch.float64)
    want = values_of(modules, with_context(nnet, features))
    got = nnet.compute(features, frame_subsampling_factor=factor)
    assert got.dtype == torch.float64
    assert got.shape == want.shape
    return float((got - want).abs().max())
