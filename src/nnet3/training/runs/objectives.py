"""Kinds of objectives: `by-node`, as output nodes say; `chain`, LF-MMI; `discriminative`, of lattices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nnet3.base.options.chain import ChainOptions
from nnet3.base.options.declaring import declared
from nnet3.base.options.discriminative import DiscriminativeOptions
from nnet3.model.nnet import AcousticModel, Nnet, load
from nnet3.training.chain.denominator import OUTPUT, load_denominator
from nnet3.training.chain.objective import ChainObjective, ChainObjectives
from nnet3.training.discriminative.objective import DiscriminativeObjective
from nnet3.training.runs.beginning import contents_digest
from nnet3.training.runs.data_kinds import ByNodeSection, ChainSection, DiscriminativeSection
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


class DiscriminativeKind:
    """MMI, sMBR or MPFE with the transition model and the priors of an acoustic model."""

    def identity(self, section: DiscriminativeSection) -> dict[str, Any]:
        return {"objective.model.contents": contents_digest(section.model)}

    def make(self, section: DiscriminativeSection, nnet: Nnet) -> RunObjectives:
        model = load(section.model) if section.model else None
        if not isinstance(model, AcousticModel):
            raise SettingError("model", "expected an acoustic model (.mdl), whose transition-ids the examples have")
        options = DiscriminativeOptions(
            **{item.name: getattr(section, item.name) for item in declared(DiscriminativeOptions)}
        )
        if options.xent_regularize and f"{OUTPUT}-xent" not in nnet.output_names:
            raise SettingError("xent-regularize", f"the network has no output '{OUTPUT}-xent': leave it out")
        has_second = f"{OUTPUT}-xent" in nnet.output_names
        train = DiscriminativeObjective.of_model(model, options, section.apply_deriv_weights)
        compare = DiscriminativeObjective.of_model(model, replace(options, xent_regularize=0.0))
        statistics = replace(options, xent_regularize=1.0) if has_second else options
        return RunObjectives(
            *(train, compare, DiscriminativeObjective.of_model(model, statistics)),
            gives_posteriors=len(model.priors) > 0,
        )


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
