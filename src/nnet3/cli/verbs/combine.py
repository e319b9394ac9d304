"""`nnet3 combine`: the best average of the last models (Kaldi: nnet3-combine)."""

from __future__ import annotations

from functools import partial

import click

from nnet3.cli import later
from nnet3.cli.messages import say
from nnet3.cli.options import binary_option, max_evaluations_option, test_mode_options
from nnet3.cli.verb import RUNNING, verb


@verb("the average of the last networks that is best on examples", RUNNING, program="nnet3-combine")
@binary_option
@test_mode_options(batchnorm=False)
@max_evaluations_option
@click.argument("names", nargs=-1, required=True, metavar="RAW-IN... EGS-RSPECIFIER RAW-OUT")
def command(
    names: tuple[str, ...],
    binary: bool,
    batchnorm_test_mode: bool,
    dropout_test_mode: bool,
    max_objective_evaluations: int,
) -> None:
    """Average the first n raw networks, with the n that is best on merged examples. Give the last network first.

    \b
    Example:
      nnet3 combine 9.raw 8.raw 7.raw 'ark:nnet3 merge-egs ark:combine.egs ark:- |' final.raw
    """
    if len(names) < 3:
        raise click.UsageError("give at least one network, the examples, and the file to write")
    *models, examples, output = names
    later.files.check_can_save(output)
    device = later.device.given_device()
    loaders = [partial(later.files.load_network_to, device, name) for name in models]
    result = later.combine.combine(
        loaders,
        list(later.egs_minibatches.minibatches(examples, loaders[0]())),
        batchnorm_test_mode=batchnorm_test_mode,
        dropout_test_mode=dropout_test_mode,
        max_objective_evaluations=max_objective_evaluations,
        say=say,
    )
    later.files.save_model(result, output, binary)
    say(f"Finished combining neural nets, wrote model to {output}")
