"""Kinds of objectives: `by-node`, as each output node of the network says; `chain`, LF-MMI (docs/chain.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nnet3.chain import ChainObjective
from nnet3.chain.denominator import load_denominator
from nnet3.nnet import Nnet
from nnet3.options import ChainOptions, declared
from nnet3.runs.beginning import contents_digest
from nnet3.runs.kinds import ByNodeSection, ChainSection
from nnet3.runs.plugs import RunObjectives, SettingError
from nnet3.train.objectives import ObjectiveByNode, objective_name


class ByNodeKind:
    """The objective that each output node of the network names."""

    def make(self, section: ByNodeSection, nnet: Nnet) -> RunObjectives:
        objective = ObjectiveByNode(nnet)
        is_linear = "output" in nnet.output_names and objective_name(nnet, "output") == "linear"
        return RunObjectives(objective, objective, objective, gives_posteriors=is_linear)

    def identity(self, section: ByNodeSection) -> dict[str, Any]:
        return {}


class ChainKind:
    """LF-MMI with the denominator graph in a file."""

    def identity(self, section: ChainSection) -> dict[str, Any]:
        return {"denominator.contents": contents_digest(section.den_fst)}

    def make(self, section: ChainSection, nnet: Nnet) -> RunObjectives:
        if not section.den_fst:
            raise SettingError("den-fst", "expected the file of a denominator graph, got none")
        denominator = load_denominator(
            section.den_fst, nnet, section.leaky_hmm_coefficient, insist=section.insist_on_den_fst
        )
        options = ChainOptions(**{item.name: getattr(section, item.name) for item in declared(ChainOptions)})
        train = ChainObjective(denominator, options, section.apply_deriv_weights)
        compare = ChainObjective(denominator, replace(options, xent_regularize=0.0))
        return RunObjectives(train, compare, train.with_second_output(nnet))
