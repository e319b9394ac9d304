"""Kinds of objectives: `by-node`, as each output node of the network says; `chain`, LF-MMI (docs/chain.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nnet3.base.options.chain import ChainOptions
from nnet3.base.options.declaring import declared
from nnet3.model.nnet import Nnet
from nnet3.training.chain.denominator import OUTPUT, load_denominator
from nnet3.training.chain.objective import ChainObjective, ChainObjectives
from nnet3.training.runs.beginning import contents_digest
from nnet3.training.runs.data_kinds import ByNodeSection, ChainSection
from nnet3.training.runs.interfaces import RunObjectives, SettingError
from nnet3.training.train.objectives import ObjectiveByNode, objective_name


class ByNodeKind:
    """The objective named by each output node of the network."""

    def make(self, section: ByNodeSection, nnet: Nnet) -> RunObjectives:
        objective = ObjectiveByNode(nnet)
        is_linear = "output" in nnet.output_names and objective_name(nnet, "output") == "linear"
        return RunObjectives(objective, objective, objective, gives_posteriors=is_linear)

    def identity(self, section: ByNodeSection) -> dict[str, Any]:
        return {}


class ChainKind:
    """LF-MMI with the denominator graph in a file."""

    def identity(self, section: ChainSection) -> dict[str, Any]:
        files = {output: contents_digest(name) for output, name in _denominators(section).items()}
        return {f"denominator.contents{f' of {name}' if name else ''}": digest for name, digest in files.items()}

    def make(self, section: ChainSection, nnet: Nnet) -> RunObjectives:
        if bool(section.den_fst) == bool(section.den_fsts):
            raise SettingError("den-fst", "expected the file of a denominator graph, or den-fsts, one for each output")
        options = ChainOptions(**{item.name: getattr(section, item.name) for item in declared(ChainOptions)})
        without_xent = replace(options, xent_regularize=0.0)
        train, compare = dict[str, ChainObjective](), dict[str, ChainObjective]()
        for output, name in _denominators(section).items():
            denominator = load_denominator(
                *(name, nnet, section.leaky_hmm_coefficient),
                insist=section.insist_on_den_fst,
                output=output or OUTPUT,
            )
            train[output] = ChainObjective(denominator, options, section.apply_deriv_weights)
            compare[output] = ChainObjective(denominator, without_xent)
        if section.den_fst:
            return RunObjectives(train[""], compare[""], train[""].with_second_outputs(nnet))
        by_output = ChainObjectives(train)
        return RunObjectives(by_output, ChainObjectives(compare), by_output.with_second_outputs(nnet))


def _denominators(section: ChainSection) -> dict[str, str]:
    """Returns the files of denominator graphs by output; "" stands for one that serves all."""
    if section.den_fst:
        return {"": section.den_fst}
    found = {}
    for text in section.den_fsts:
        output, equals, name = text.partition("=")
        if not (output and equals and name) or output in found:
            raise SettingError("den-fsts", f"expected OUTPUT=FILE, each output once, got '{text}'")
        found[output] = name
    return found
