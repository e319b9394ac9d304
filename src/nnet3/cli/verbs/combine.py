from functools import partial
from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.messages import say
from nnet3.cli.options import arguments, binary_option, max_evaluations_option, test_mode_options
from nnet3.cli.verb import RUNNING, verb


@verb("the average of the last networks that is best on examples", RUNNING, program="nnet3-combine")
@binary_option
@test_mode_options(batchnorm=False)
@max_evaluations_option
@arguments(names="RAW-IN... EGS-RSPECIFIER RAW-OUT")
def command(names: tuple[str, ...], binary: bool, **settings: Any) -> None:
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
    minibatches = list(later.egs_minibatches.minibatches(examples, loaders[0]()))
    result = later.combine.combine(loaders, minibatches, say=say, **settings)
    later.files.save_model(result, output, binary)
    say(f"Finished combining neural nets, wrote model to {output}")
