"""The kinds of data and of objectives that `nnet3 train-model` knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nnet3.nnet import Nnet
from nnet3.options import Options
from nnet3.train.objectives import ObjectiveByNode
from nnet3.train.run.chain import ChainExamplesKind, ChainKind
from nnet3.train.run.frames import FramesKind
from nnet3.train.run.plugs import RunObjectives
from nnet3.train.run.train_model import Kinds


@dataclass(frozen=True)
class ByNodeSection(Options):
    """Linear or quadratic, as each output node of the network says."""


@dataclass(frozen=True)
class ByNodeKind:
    """The entry of the registry."""

    section: type[Options] = ByNodeSection

    def make(self, section: ByNodeSection, nnet: Nnet) -> RunObjectives:
        objective = ObjectiveByNode(nnet)
        return RunObjectives(objective, objective, objective)

    def identity(self, section: ByNodeSection) -> dict[str, Any]:
        return {}


KINDS = Kinds(
    data={"frames": FramesKind(), "chain": ChainExamplesKind()},
    objective={"by-node": ByNodeKind(), "chain": ChainKind()},
)
