from typing import Any

from nnet3.cli import later
from nnet3.cli.copy_options import copy_options, make_copy_options
from nnet3.cli.messages import print_warnings
from nnet3.cli.options import arguments, binary_option, flag
from nnet3.cli.verb import MODELS, verb


@verb("copy a raw network with changes", MODELS, program="nnet3-copy")
@binary_option
@copy_options
@flag("--batchnorm-test-mode", help="Put batch-norm in test mode.")
@arguments(source="MODEL-IN", output="RAW-OUT")
def command(source: str, output: str, binary: bool, batchnorm_test_mode: bool, **options: Any) -> None:
    """Copy a raw network (or the network of an acoustic model), with changes in this order: nnet-config, learning
    rates, scale, edits, prepare-for-test.

    --prepare-for-test=true puts batch-norm and dropout in test mode and merges affine, scale and batch-norm layers
    into their neighbours; the outputs stay equal.

    \b
    Examples:
      nnet3 copy --binary=false final.raw final.txt
      nnet3 copy --edits='set-learning-rate name=tdnn1* learning-rate=0; remove-orphans' 1.raw 2.raw
    """
    nnet = later.files.load_network(source)
    print_warnings(
        later.copy_operations.copy_raw(nnet, make_copy_options(**options, batchnorm_test_mode=batchnorm_test_mode))
    )
    later.files.save_model(nnet, output, binary)
