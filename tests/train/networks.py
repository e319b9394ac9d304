"""A network with much of what trains in its own way, and random minibatches for it."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.model.nnet import Nnet
from nnet3.train import MatrixTarget, Minibatch, NetworkInput
from nnet3.training.train.minibatch import grid, one_hot

MANY = """
input-node name=input dim=4
component name=affine type=NaturalGradientAffineComponent input-dim=12 output-dim=10 l2-regularize=0.01 max-change=0.3
component-node name=affine component=affine input=Append(Offset(input, -1), input, Offset(input, 1))
component name=relu type=RectifiedLinearComponent dim=10 self-repair-scale=1e-05
component-node name=relu component=relu input=affine
component name=norm type=BatchNormComponent dim=10
component-node name=norm component=norm input=relu
component name=drop type=DropoutComponent dim=10 dropout-proportion=0.2
component-node name=drop component=drop input=norm
component name=linear type=LinearComponent input-dim=10 output-dim=6 orthonormal-constraint=-1
component-node name=linear component=linear input=drop
component name=cells type=NaturalGradientAffineComponent input-dim=6 output-dim=16
component-node name=cells component=cells input=linear
component name=lstm type=LstmNonlinearityComponent cell-dim=4 use-dropout=false
component-node name=lstm component=lstm input=Append(cells, linear)
component name=last type=NaturalGradientAffineComponent input-dim=8 output-dim=3 learning-rate-factor=0.5
component-node name=last component=last input=lstm
component name=softmax type=LogSoftmaxComponent dim=3
component-node name=softmax component=softmax input=last
output-node name=output input=softmax
"""


def many(seed: int = 1) -> Nnet:
    """Natural gradient, l2, max-change, self-repair, batch-norm, dropout, orthonormal constraint, LSTM statistics."""
    config = MANY.replace("input=Append(cells, linear)", "input=Append(cells, narrow)").replace(
        "component name=lstm ", "dim-range-node name=narrow input-node=linear dim-offset=0 dim=4\ncomponent name=lstm "
    )
    return Nnet.from_config(config, seed=seed)


def random_minibatch(seed: int, *, sequences: int = 4, key: str = "", dtype: torch.dtype = torch.float32) -> Minibatch:
    """Frames 0 to 4 of so many sequences."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(sequences * 7, 4, generator=generator, dtype=torch.float64).to(dtype)
    labels = torch.randint(3, (sequences * 5,), generator=generator)
    return Minibatch(
        [NetworkInput("input", grid(sequences, range(-1, 6)), x)],
        [MatrixTarget("output", grid(sequences, range(5)), one_hot(labels.numpy(), 3))],
        key,
    )


def everything(nnet: Nnet) -> dict[str, Tensor]:
    """Parameters and statistics of all components, copied."""
    found = {}
    for name, component in nnet.components.items():
        for key, tensor in component.parameters().items():
            found[f"{name}.{key}"] = tensor.clone()
        for key in component.statistic_names:
            found[f"{name}.{key}"] = torch.as_tensor(getattr(component, key), dtype=torch.float64).clone()
    return found


def differing(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[str]:
    """The names under which two do not hold the same bits."""
    assert one.keys() == other.keys()
    return [name for name, tensor in one.items() if not torch.equal(tensor, other[name])]
