"""Trains and combines networks on plain examples, or by sequence training with one denominator graph or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from nnet3.base.kaldi_io.replacing import MODEL
from nnet3.base.options.chain import ChainOptions, DenominatorOptions
from nnet3.base.options.training import TrainerOptions
from nnet3.cli.caches import kept_cache
from nnet3.cli.device import given_device
from nnet3.cli.files import check_can_save, load_network_to, save_model
from nnet3.cli.messages import say
from nnet3.cli.outputs_of_egs import minibatches, minibatches_of
from nnet3.engine.driver import ComputationCache
from nnet3.errors import Nnet3Error, TrainingError
from nnet3.model.nnet import Nnet
from nnet3.training.chain.changes import in_language, language_of_key
from nnet3.training.chain.denominator import OUTPUT, load_denominator
from nnet3.training.chain.example import CHAIN_EXAMPLES, ChainExample, chain_minibatch
from nnet3.training.chain.objective import ChainObjective, ChainObjectives
from nnet3.training.train.combine import combine
from nnet3.training.train.minibatch import Minibatch
from nnet3.training.train.objectives import Objective
from nnet3.training.train.trainer import MinibatchTrainer, Trainer

_SUFFIX = ".den.fst"


class PlainFiles:
    """Plain examples, with the objective of the output nodes."""

    written: ClassVar[str] = "model"  # what a line of the log calls the result

    def load(self, model: str) -> Nnet:
        """Returns the network of a model file, on the device that the user wants."""
        return load_network_to(given_device(), model)

    def objective(self, nnet: Nnet) -> Objective | None:
        """Returns the objective for the network; None: that of the output nodes."""
        return None

    def trainer(self, nnet: Nnet, options: TrainerOptions, cache: ComputationCache) -> MinibatchTrainer[Minibatch]:
        return Trainer(nnet, options, self.objective(nnet), cache=cache, say=say)

    def minibatches(self, rspecifier: str, nnet: Nnet) -> Iterator[Minibatch]:
        """Yields the (merged) examples of a table as minibatches for the network."""
        return minibatches(rspecifier, nnet)


@dataclass(frozen=True)
class ChainFiles(PlainFiles):
    """Denominator graphs: `den_fst` is a file with the graph of all outputs, or, `by_language`, a folder.

    A folder has LANG.den.fst for the output output-LANG. Keys of examples such as `merged-1-64?lang=fr` name the
    language of the examples' `output`; without a name the language is `default` (Kaldi: nnet3-chain-train2).
    """

    den_fst: str
    denominator: DenominatorOptions
    options: ChainOptions
    apply_deriv_weights: bool = True
    by_language: bool = False

    def objective(self, nnet: Nnet) -> ChainObjective | ChainObjectives:
        """Returns the objective for a network. Raises Nnet3Error for graphs that are missing or do not fit."""
        if not self.by_language:
            return self._objective(self.den_fst, nnet, OUTPUT)
        names = {f"{OUTPUT}-{path.name.removesuffix(_SUFFIX)}": path for path in Path(self.den_fst).glob(f"*{_SUFFIX}")}
        found = {name: str(path) for name, path in names.items() if name in nnet.output_names}
        if not found:
            raise Nnet3Error(
                f"{self.den_fst}: expected a folder with LANG{_SUFFIX} for an output {OUTPUT}-LANG of the network, "
                f"which has {', '.join(nnet.output_names)}, got {', '.join(sorted(map(str, names.values()))) or 'none'}"
            )
        return ChainObjectives({name: self._objective(path, nnet, name) for name, path in found.items()})

    def minibatches(self, rspecifier: str, nnet: Nnet) -> Iterator[Minibatch]:
        inputs = nnet.input_dims

        def prepare(example: ChainExample, key: str) -> Minibatch:
            named = in_language(example, language_of_key(key)) if self.by_language else example
            return chain_minibatch(named, inputs, key)

        return minibatches_of(rspecifier, CHAIN_EXAMPLES, prepare)

    def _objective(self, den_fst: str, nnet: Nnet, output: str) -> ChainObjective:
        given = self.denominator
        graph = load_denominator(
            den_fst, nnet, given.leaky_hmm_coefficient, insist=given.insist_on_den_fst, output=output
        )
        return ChainObjective(graph, self.options, self.apply_deriv_weights)


def train(
    files: PlainFiles,
    model: str,
    examples: str,
    output: str,
    binary: bool,
    options: TrainerOptions,
    cache_files: tuple[str | None, ...],
) -> None:
    """Trains the network of a model on merged examples, and writes the network.

    Raises TrainingError, after writing the unchanged network, if there is no minibatch to train on.
    """
    check_can_save(MODEL, output)
    nnet = files.load(model)
    with kept_cache(*cache_files) as cache:
        trainer = files.trainer(nnet, options, cache)
        for minibatch in files.minibatches(examples, nnet):
            trainer.train_minibatch(minibatch)
    trainer.log.finish()
    has_weight = type(files) is PlainFiles or any(stats.weight for stats in trainer.log.totals.values())
    save_model(nnet, output, binary)
    say(f"Wrote {files.written} to {output}")
    if trainer.num_minibatches == trainer.num_skipped or not has_weight:
        raise TrainingError(
            f"{examples}: no minibatch to train on, {trainer.num_skipped} skipped: the model that is written has "
            "learnt nothing"
        )


def combine_files(
    files: PlainFiles, models: Sequence[str], examples: str, output: str, binary: bool, **settings: Any
) -> None:
    """Writes the average of the first n networks, for the n whose average is best on examples."""
    check_can_save(MODEL, output)
    device = given_device()
    loaders = [partial(load_network_to, device, name) for name in models]
    nnet = loaders[0]()
    objective = files.objective(nnet)
    if isinstance(objective, ChainObjective | ChainObjectives):
        settings["objective"] = lambda _: objective
        settings["statistics_objective"] = lambda _: objective.with_second_outputs(nnet)
    result = combine(loaders, list(files.minibatches(examples, nnet)), say=say, **settings)
    save_model(result, output, binary)
    say(f"Finished combining neural nets, wrote model to {output}")
