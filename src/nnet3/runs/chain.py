"""Data and objective of kind `chain`: sequence training with LF-MMI (docs/chain.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nnet3.chain import CHAIN_EXAMPLES, ChainExample, ChainObjective, chain_minibatch
from nnet3.chain.changes import ChainChanges
from nnet3.chain.load_denominator import load_denominator
from nnet3.chain.second_output import with_second_output
from nnet3.nnet import Nnet
from nnet3.options import ChainOptions, declared
from nnet3.runs.archives import ArchiveSource
from nnet3.runs.beginning import contents_digest
from nnet3.runs.kind_sections import ChainExamplesSection, ChainSection
from nnet3.runs.plugs import DataSource, RunObjectives, SettingError, Share
from nnet3.train.minibatch import Minibatch


class ChainExamplesKind:
    """The entry of the registry."""

    def open(self, section: ChainExamplesSection, nnet: Nnet, share: Share, seed: int) -> DataSource:
        inputs = nnet.input_dims

        def prepare(example: ChainExample, key: str) -> Minibatch:
            return chain_minibatch(example, inputs, key)

        def change(example: ChainExample, epoch: int) -> ChainExample:
            return ChainChanges(frame_shift=epoch % section.frame_shifts).apply(example)

        shifted = change if section.frame_shifts > 1 else None
        return ArchiveSource(section, CHAIN_EXAMPLES, prepare, share, seed, shifted)


class ChainKind:
    """The entry of the registry."""

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
        return RunObjectives(train, compare, with_second_output(train, nnet))
