"""`nnet3 train`: one pass over training examples (Kaldi: nnet3-train)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nnet3.cli.declared import takes
from nnet3.cli.lazy import LazyModule
from nnet3.cli.messages import say
from nnet3.cli.options import binary_option, caching_options
from nnet3.cli.verb import verb
from nnet3.errors import TrainingError
from nnet3.options import TrainerOptions

if TYPE_CHECKING:
    import nnet3.train as train
    from nnet3.cli import egs_minibatches, files
else:
    train = LazyModule("nnet3.train")
    egs_minibatches = LazyModule("nnet3.cli.egs_minibatches")
    files = LazyModule("nnet3.cli.files")


@verb("train")
@takes("options", TrainerOptions)
@caching_options
@binary_option
@click.argument("model", metavar="RAW-IN")
@click.argument("examples", metavar="EGS-RSPECIFIER")
@click.argument("output", metavar="RAW-OUT")
def command(model: str, examples: str, output: str, binary: bool, options: TrainerOptions) -> None:
    """Train a raw network on merged examples, each of which is a minibatch, with the learning rates that it has.

    A minibatch in which something is not finite is skipped, with a warning that names it.

    \b
    Example:
      nnet3 train --momentum=0.5 1.raw 'ark:nnet3 merge-egs --minibatch-size=64 ark:egs.ark ark:- |' 2.raw
    """
    files.check_can_save(output)
    nnet = files.load_network(model)
    trainer = train.Trainer(nnet, options, say=say)
    for minibatch in egs_minibatches.minibatches(examples, nnet):
        trainer.train_minibatch(minibatch)
    trainer.log.finish()
    if trainer.num_minibatches == trainer.num_skipped:
        raise TrainingError(f"{examples}: no minibatch to train on, {trainer.num_skipped} skipped")
    files.save_model(nnet, output, binary)
    say(f"Wrote model to {output}")
