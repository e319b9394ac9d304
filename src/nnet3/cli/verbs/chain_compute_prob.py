from typing import Any

from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.messages import say
from nnet3.cli.options import arguments, ignored_threads_option, test_mode_options
from nnet3.cli.verb import CHAIN, verb
from nnet3.options import ChainOptions, DenominatorOptions


@verb("the LF-MMI objective of a network on chain examples", CHAIN, program="nnet3-chain-compute-prob")
@test_mode_options(batchnorm=True)
@takes("denominator", DenominatorOptions)
@takes("options", ChainOptions)
@ignored_threads_option
@arguments(model="RAW-IN", den_fst="DEN-FST", examples="EGS-RSPECIFIER")
def command(
    model: str, den_fst: str, examples: str, denominator: DenominatorOptions, options: ChainOptions, **modes: Any
) -> None:
    """Print the log-probability per frame that a raw network reaches on merged chain examples (on stderr).

    \b
    Example:
      nnet3 chain-compute-prob final.raw den.fst 'ark:nnet3 chain-merge-egs ark:valid_diagnostic.cegs ark:- |'
    """
    nnet = later.files.load_network_to(later.device.given_device(), model)
    objective = later.chain_files.load_objective(den_fst, nnet, denominator, options)
    minibatches = later.chain_files.minibatches(examples, nnet)
    evaluator = later.compute_prob.evaluated(nnet, minibatches, objective, collapse=False, accuracy=False, **modes)
    for name, own in evaluator.stats.items():
        say(later.compute_prob.report_line(f"log-probability for '{name}'", own))
