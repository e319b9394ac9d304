"""Objective of kind `by-node`: what each output node of the network says."""

from __future__ import annotations

from typing import Any

from nnet3.nnet import Nnet
from nnet3.runs.kind_sections import ByNodeSection
from nnet3.runs.plugs import RunObjectives
from nnet3.train.objectives import ObjectiveByNode


class ByNodeKind:
    """The entry of the registry."""

    def make(self, section: ByNodeSection, nnet: Nnet) -> RunObjectives:
        objective = ObjectiveByNode(nnet)
        return RunObjectives(objective, objective, objective)

    def identity(self, section: ByNodeSection) -> dict[str, Any]:
        return {}
