"""Trains and combines networks by sequence training, with one denominator graph or one for each language."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from nnet3.cli.caches import kept_cache
from nnet3.cli.chain_files import ChainFiles
from nnet3.cli.device import given_device
from nnet3.cli.files import check_can_save, load_network_to, save_model
from nnet3.cli.messages import say
from nnet3.errors import TrainingError
from nnet3.options import TrainerOptions
from nnet3.train import Trainer
from nnet3.train.combine import combine


def train_chain(
    files: ChainFiles,
    model: str,
    examples: str,
    output: str,
    binary: bool,
    options: TrainerOptions,
    cache_files: tuple[str | None, ...],
) -> None:
    """Trains a raw network on merged examples. Raises TrainingError if there is no minibatch to train on."""
    check_can_save(output)
    nnet = load_network_to(given_device(), model)
    objective = files.objective(nnet)
    with kept_cache(*cache_files) as cache:
        trainer = Trainer(nnet, options, objective, cache=cache, say=say)
        for minibatch in files.minibatches(examples, nnet):
            trainer.train_minibatch(minibatch)
    trainer.log.finish()
    if not any(stats.weight for stats in trainer.log.totals.values()):
        raise TrainingError(f"{examples}: no minibatch to train on, {trainer.num_skipped} skipped")
    save_model(nnet, output, binary)
    say(f"Wrote model to {output}")


def combine_chain(
    files: ChainFiles, models: Sequence[str], examples: str, output: str, binary: bool, **settings: Any
) -> None:
    """Writes the average of the first networks, of so many as are best on examples."""
    check_can_save(output)
    device = given_device()
    loaders = [partial(load_network_to, device, name) for name in models]
    nnet = loaders[0]()
    objective = files.objective(nnet)
    result = combine(
        loaders,
        list(files.minibatches(examples, nnet)),
        lambda _: objective,
        statistics_objective=lambda _: objective.with_second_outputs(nnet),
        say=say,
        **settings,
    )
    save_model(result, output, binary)
    say(f"Finished combining neural nets, wrote model to {output}")
