"""The objective that the network itself names for each of its output nodes."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nnet3.components import RandomSource
from nnet3.errors import TrainingError
from nnet3.nnet import Nnet
from nnet3.structure.nodes import DescriptorNode
from nnet3.train.minibatch import Target
from nnet3.train.objectives.linear import LinearObjective
from nnet3.train.objectives.protocol import Objective, OutputResult
from nnet3.train.objectives.quadratic import QuadraticObjective

_BY_NAME: dict[str, Objective] = {"linear": LinearObjective(), "quadratic": QuadraticObjective()}


def objective_name(nnet: Nnet, output: str) -> str:
    """`linear` or `quadratic`: what the line of the output node says. Raises TrainingError if it is no output."""
    node = nnet.node(output)
    if not isinstance(node, DescriptorNode) or not node.is_output:
        raise TrainingError(f"'{output}' is no output node: the network has {', '.join(nnet.output_names)}")
    return node.objective or "linear"


class ObjectiveByNode:
    """Linear or quadratic, as the `objective=` of the target's output node says."""

    def __init__(self, nnet: Nnet) -> None:
        self.nnet = nnet

    def outputs(self, target: Target) -> tuple[str, ...]:
        return (target.name,)

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        own = _BY_NAME[objective_name(self.nnet, target.name)]
        return own.evaluate(target, outputs, rng=rng, with_derivs=with_derivs)
