from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.messages import say
from nnet3.cli.options import arguments, flag, ignored_threads_option, test_mode_options
from nnet3.cli.verb import CHAIN, verb
from nnet3.options import ChainOptions, DenominatorOptions


@verb("the LF-MMI objective of a network on chain examples", CHAIN, program="nnet3-chain-compute-prob")
@test_mode_options(batchnorm=True)
@takes("denominator", DenominatorOptions)
@takes("options", ChainOptions)
@ignored_threads_option
@flag("--compute-deriv", "gradient", help="Also the gradient: its size for each component; written to GRADIENT-OUT.")
@arguments(model="RAW-IN", den_fst="DEN-FST", examples="EGS-RSPECIFIER", output="[GRADIENT-OUT]")
def command(
    model: str,
    den_fst: str,
    examples: str,
    output: str,
    denominator: DenominatorOptions,
    options: ChainOptions,
    **settings: Any,
) -> None:
    """Print the log-probability per frame that a raw network reaches on merged chain examples (on stderr).

    With --compute-deriv=true the gradient of the objective, summed over all frames, is written as a network whose
    parameters it is.

    \b
    Example:
      nnet3 chain-compute-prob final.raw den.fst 'ark:nnet3 chain-merge-egs ark:valid_diagnostic.cegs ark:- |'
    """
    if output and not settings["gradient"]:
        raise click.UsageError(f"'{output}' would have the gradient: say --compute-deriv=true")
    nnet = later.files.load_network_to(later.device.given_device(), model)
    files = later.chain_files.ChainFiles(den_fst, denominator, options)
    objective, minibatches = files.objective(nnet), files.minibatches(examples, nnet)
    evaluator = later.compute_prob.evaluated(nnet, minibatches, objective, collapse=False, accuracy=False, **settings)
    for name, own in evaluator.stats.items():
        say(later.compute_prob.report_line(f"log-probability for '{name}'", own))
    later.egs_minibatches.report_gradient(evaluator.gradient, output)
