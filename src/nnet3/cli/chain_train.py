"""`nnet3 chain-train`: one pass over chain examples (Kaldi: nnet3-chain-train)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nnet3.cli.chain_options import chain_options
from nnet3.cli.lazy import LazyModule
from nnet3.cli.messages import say
from nnet3.cli.options import KALDI_BOOL, binary_option
from nnet3.cli.trainer_options import trainer_options
from nnet3.cli.verb import verb
from nnet3.errors import TrainingError

if TYPE_CHECKING:
    import nnet3.train as training
    from nnet3.cli import chain_files, files
else:
    training = LazyModule("nnet3.train")
    chain_files = LazyModule("nnet3.cli.chain_files")
    files = LazyModule("nnet3.cli.files")


@verb("chain-train")
@trainer_options
@chain_options
@click.option(
    "--apply-deriv-weights", type=KALDI_BOOL, default=True, show_default=True, help="Scale derivatives of frames."
)
@binary_option
@click.argument("model", metavar="RAW-IN")
@click.argument("den_fst", metavar="DEN-FST")
@click.argument("examples", metavar="EGS-RSPECIFIER")
@click.argument("output", metavar="RAW-OUT")
def command(
    model: str,
    den_fst: str,
    examples: str,
    output: str,
    binary: bool,
    leaky_hmm_coefficient: float,
    xent_regularize: float,
    l2_regularize: float,
    out_of_range_regularize: float,
    lwf_den_scale: float,
    apply_deriv_weights: bool,
    **options: Any,
) -> None:
    """Train a raw network with LF-MMI on merged chain examples, with the learning rates that it has.

    \b
    Example:
      nnet3 chain-train --leaky-hmm-coefficient=0.1 --xent-regularize=0.1 0.raw den.fst ark:merged.ark 1.raw
    """
    files.check_can_save(output)
    nnet = files.load_network(model)
    of_objective = {
        "l2_regularize": l2_regularize,
        "out_of_range_regularize": out_of_range_regularize,
        "xent_regularize": xent_regularize,
        "lwf_den_scale": lwf_den_scale,
    }
    objective = chain_files.load_objective(den_fst, nnet, leaky_hmm_coefficient, of_objective, apply_deriv_weights)
    trainer = training.Trainer(nnet, training.TrainerOptions(**options), objective, say=say)
    for minibatch in chain_files.minibatches(examples, nnet):
        trainer.train_minibatch(minibatch)
    trainer.log.finish()
    if not any(stats.weight for stats in trainer.log.totals.values()):
        raise TrainingError(f"{examples}: no minibatch to train on, {trainer.num_skipped} skipped")
    files.save_model(nnet, output, binary)
    say(f"Wrote model to {output}")
