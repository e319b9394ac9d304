"""`nnet3 chain-compute-prob`: the LF-MMI objective on examples (Kaldi: nnet3-chain-compute-prob)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nnet3.cli.declared import takes
from nnet3.cli.lazy import LazyModule
from nnet3.cli.messages import say
from nnet3.cli.options import ignored_threads_option, test_mode_options
from nnet3.cli.verb import verb
from nnet3.options import ChainOptions, DenominatorOptions

if TYPE_CHECKING:
    from nnet3.cli import chain_files, files
    from nnet3.train import compute_prob
else:
    chain_files = LazyModule("nnet3.cli.chain_files")
    files = LazyModule("nnet3.cli.files")
    compute_prob = LazyModule("nnet3.train.compute_prob")


@verb("chain-compute-prob")
@test_mode_options(batchnorm=True)
@takes("denominator", DenominatorOptions)
@takes("options", ChainOptions)
@ignored_threads_option
@click.argument("model", metavar="RAW-IN")
@click.argument("den_fst", metavar="DEN-FST")
@click.argument("examples", metavar="EGS-RSPECIFIER")
def command(
    model: str,
    den_fst: str,
    examples: str,
    batchnorm_test_mode: bool,
    dropout_test_mode: bool,
    denominator: DenominatorOptions,
    options: ChainOptions,
) -> None:
    """Print the log-probability per frame that a raw network reaches on merged chain examples (on stderr).

    \b
    Example:
      nnet3 chain-compute-prob final.raw den.fst 'ark:nnet3 chain-merge-egs ark:valid_diagnostic.cegs ark:- |'
    """
    nnet = files.load_network(model)
    objective = chain_files.load_objective(den_fst, nnet, denominator, options)
    stats = compute_prob.compute_prob(
        nnet,
        chain_files.minibatches(examples, nnet),
        objective,
        batchnorm_test_mode=batchnorm_test_mode,
        dropout_test_mode=dropout_test_mode,
        collapse=False,
        accuracy=False,
    )
    for name, own in stats.items():
        say(compute_prob.report_line(f"log-probability for '{name}'", own))
