"""Networks for tests of the module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nnet3 import Nnet

TDNN = """
input-node name=input dim=3
component name=tdnn1.affine type=NaturalGradientAffineComponent input-dim=9 output-dim=6
component-node name=tdnn1.affine component=tdnn1.affine input=Append(Offset(input, -1), input, Offset(input, 1))
component name=tdnn1.relu type=RectifiedLinearComponent dim=6 self-repair-scale=1e-2
component-node name=tdnn1.relu component=tdnn1.relu input=tdnn1.affine
component name=tdnn1.norm type=BatchNormComponent dim=6
component-node name=tdnn1.norm component=tdnn1.norm input=tdnn1.relu
component name=tdnn2 type=TdnnComponent input-dim=6 output-dim=5 time-offsets=-2,0,2
component-node name=tdnn2 component=tdnn2 input=tdnn1.norm
component name=last type=LogSoftmaxComponent dim=5
component-node name=last component=last input=tdnn2
output-node name=output input=last
"""
IVECTOR = """
input-node name=input dim=3
input-node name=ivector dim=2
component name=affine type=AffineComponent input-dim=5 output-dim=4
component-node name=affine component=affine input=Append(Offset(input, -2), ReplaceIndex(ivector, t, 0))
component name=tanh type=TanhComponent dim=4 self-repair-scale=1e-2
component-node name=tanh component=tanh input=affine
component name=xent type=LinearComponent input-dim=4 output-dim=3
component-node name=xent component=xent input=tanh
output-node name=output input=tanh
output-node name=output-xent input=xent
"""
LSTM = """
input-node name=input dim=3
component name=gates type=AffineComponent input-dim=7 output-dim=16
component-node name=gates component=gates input=Append(input, IfDefined(Offset(m, -1)))
component name=nonlin type=LstmNonlinearityComponent cell-dim=4
component-node name=nonlin component=nonlin input=Append(gates, IfDefined(Offset(c, -1)))
component name=drop type=BackpropTruncationComponent dim=8 recurrence-interval=3 zeroing-interval=20
component name=noop type=NoOpComponent dim=4
dim-range-node name=c input-node=nonlin dim-offset=0 dim=4
dim-range-node name=m input-node=nonlin dim-offset=4 dim=4
component-node name=noop component=noop input=m
output-node name=output input=noop
"""
DROPOUT = """
input-node name=input dim=4
component name=affine type=AffineComponent input-dim=4 output-dim=40
component-node name=affine component=affine input=input
component name=dropout type=DropoutComponent dim=40 dropout-proportion=0.5
component-node name=dropout component=dropout input=affine
output-node name=output input=dropout
"""
COMPOSITE = """
input-node name=input dim=3
component name=first type=AffineComponent input-dim=3 output-dim=3
component-node name=first component=first input=input
component name=both type=CompositeComponent num-components=3 component1='type=AffineComponent input-dim=3 \
output-dim=4' component2='type=TanhComponent dim=4 self-repair-scale=1e-2' component3='type=BatchNormComponent dim=4'
component-node name=both component=both input=first
output-node name=output input=both
"""
ALL = {"tdnn": TDNN, "ivector": IVECTOR, "lstm": LSTM, "composite": COMPOSITE}


def network(config: str, seed: int = 0) -> Nnet:
    return Nnet.from_config(config, seed=seed)


def features(batch: int, frames: int, dim: int = 3, seed: int = 0) -> Tensor:
    return torch.randn(batch, frames, dim, generator=torch.Generator().manual_seed(seed))


class TdnnByHand(nn.Module):
    """What TDNN computes, with the same numbers, as one would write it in PyTorch."""

    def __init__(self, nnet: Nnet) -> None:
        super().__init__()
        first, second = (nnet.components[name].parameters() for name in ("tdnn1.affine", "tdnn2"))
        self.first = nn.Conv1d(3, 6, 3)
        self.norm = nn.BatchNorm1d(6, eps=1e-3, affine=False)
        self.second = nn.Conv1d(6, 5, 3, dilation=2)
        with torch.no_grad():
            for layer, parameters in ((self.first, first), (self.second, second)):
                weight = parameters["linear_params"]
                layer.weight.copy_(weight.view(len(weight), 3, -1).transpose(1, 2))
                layer.bias.copy_(parameters["bias_params"])  # type: ignore[union-attr]

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, 3) -> (batch, frames, 5), with the first and last frame repeated."""
        padded = torch.cat([x[:, :1].expand(-1, 3, -1), x, x[:, -1:].expand(-1, 3, -1)], dim=1).transpose(1, 2)
        hidden = self.norm(torch.relu(self.first(padded)))
        return torch.log_softmax(self.second(hidden).transpose(1, 2), dim=2)
