"""`nnet3 train-model`: a whole training run from one settings file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nnet3.cli.lazy import LazyModule
from nnet3.cli.verb import verb

if TYPE_CHECKING:
    from nnet3.train.run import kinds, settings, settings_text, train_model
else:
    kinds = LazyModule("nnet3.train.run.kinds")
    settings = LazyModule("nnet3.train.run.settings")
    settings_text = LazyModule("nnet3.train.run.settings_text")
    train_model = LazyModule("nnet3.train.run.train_model")


@verb("train-model")
@click.option("--resume", is_flag=True, help="Go on from the latest checkpoint, if there is one.")
@click.option("--allow-changes", is_flag=True, help="Go on although settings have changed that matter.")
@click.option("--describe", is_flag=True, help="Print a settings file with every key, its default and what it is for.")
@click.argument("file", required=False, metavar="SETTINGS")
def command(file: str | None, resume: bool, allow_changes: bool, describe: bool) -> int:
    """Train a network: a whole run, from examples to the final model, as a TOML or YAML file says.

    The run's folder gets checkpoints, the final model (final.raw or final.mdl), a log (log.txt, log.jsonl) and the
    curves (curves.png). SIGTERM or Ctrl-C finish the minibatch and save; --resume goes on after whatever has ended the
    run, to the same parameters, bit by bit, as if nothing had happened. Several processes: start them with torchrun.

    \b
    Examples:
      nnet3 train-model run.toml
      nnet3 train-model --resume run.toml
      torchrun --nproc-per-node=4 --max-restarts=3 -m nnet3 train-model --resume run.toml
    """
    if describe:
        click.echo(settings.describe_settings(*kinds.KINDS.sections), nl=False)
        return 0
    if file is None:
        raise click.UsageError("give a settings file; --describe prints one")
    read = kinds.KINDS.read(settings_text.read_settings_text(file))
    return train_model.train_model(read, kinds.KINDS, resume=resume, allow_changes=allow_changes)
