from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.copy_options import copy_options, make_copy_options
from nnet3.cli.messages import print_warnings
from nnet3.cli.options import arguments, binary_option, flag
from nnet3.cli.verb import MODELS, verb


@verb("copy an acoustic model with changes", MODELS, program="nnet3-am-copy")
@binary_option
@copy_options
@flag("--raw", help="Write the network alone.")
@click.option("--set-raw-nnet", metavar="RAW", help="Put this network in the place of the model's.")
@flag("--convert-repeated-to-block", help="RepeatedAffine becomes BlockAffine.")
@arguments(source="MODEL-IN", output="MODEL-OUT")
def command(source: str, output: str, binary: bool, raw: bool, set_raw_nnet: str | None, **options: Any) -> None:
    """Copy an acoustic model, with changes in this order: set-raw-nnet, nnet-config, convert-repeated-to-block,
    learning rates, edits, scale, prepare-for-test.

    \b
    Examples:
      nnet3 am-copy --raw=true final.mdl final.raw
      nnet3 am-copy --prepare-for-test=true final.mdl final_test.mdl
    """
    model = later.files.load_acoustic_model(source)
    replacement = None if set_raw_nnet is None else later.files.load_network(set_raw_nnet)
    print_warnings(later.copy_operations.copy_model(model, make_copy_options(**options, set_raw_nnet=replacement)))
    later.files.save_model(model.nnet if raw else model, output, binary)
