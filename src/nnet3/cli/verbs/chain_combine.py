from functools import partial
from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.messages import say
from nnet3.cli.options import (
    arguments,
    binary_option,
    ignored_threads_option,
    max_evaluations_option,
    test_mode_options,
)
from nnet3.cli.verb import CHAIN, verb
from nnet3.options import ChainOptions, DenominatorOptions


@verb("the average of the last networks that is best on chain examples", CHAIN, program="nnet3-chain-combine")
@binary_option
@test_mode_options(batchnorm=False)
@max_evaluations_option
@takes("denominator", DenominatorOptions)
@takes("options", ChainOptions)
@ignored_threads_option
@arguments(names="DEN-FST RAW-IN... EGS-RSPECIFIER RAW-OUT")
def command(
    names: tuple[str, ...], binary: bool, denominator: DenominatorOptions, options: ChainOptions, **settings: Any
) -> None:
    """Average the first n raw networks, with the n that is best by the LF-MMI objective. Give the last network first.

    With --xent-regularize the cross-entropy of the second output counts as much as the objective itself, as in Kaldi:
    leave it out.

    \b
    Example:
      nnet3 chain-combine --leaky-hmm-coefficient=0.1 den.fst 9.raw 8.raw 7.raw ark:combine.cegs final.raw
    """
    if len(names) < 4:
        raise click.UsageError("give the denominator graph, at least one network, the examples, and the file to write")
    den_fst, *models, examples, output = names
    later.files.check_can_save(output)
    device = later.device.given_device()
    loaders = [partial(later.files.load_network_to, device, name) for name in models]
    nnet = loaders[0]()
    objective = later.chain_files.load_objective(den_fst, nnet, denominator, options)
    result = later.combine.combine(
        loaders,
        list(later.chain_files.minibatches(examples, nnet)),
        lambda _: objective,
        statistics_objective=lambda _: objective.with_second_output(nnet),
        say=say,
        **settings,
    )
    later.files.save_model(result, output, binary)
    say(f"Finished combining neural nets, wrote model to {output}")
