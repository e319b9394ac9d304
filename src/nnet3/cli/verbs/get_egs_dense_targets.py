from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.egs_options import ivectors_option
from nnet3.cli.options import arguments, whole_number
from nnet3.cli.verb import EXAMPLES, verb
from nnet3.options import MakingOptions


@verb("make training examples of features and target matrices", EXAMPLES, program="nnet3-get-egs-dense-targets")
@takes("options", MakingOptions)
@ivectors_option
@whole_number("--num-targets", default=-1, help="Columns that target matrices must have (-1: any).", show_default=False)
@arguments(features="FEATURES-RSPECIFIER", targets="TARGETS-RSPECIFIER", output="EGS-WSPECIFIER")
def command(num_targets: int, options: MakingOptions, **tables: str) -> None:
    """As get-egs, with a row of a matrix as what each output frame is to be, for instance for a quadratic objective.

    \b
    Example:
      nnet3 get-egs-dense-targets --left-context=12 --right-context=9 scp:feats.scp ark:snrs.ark ark:egs.ark
    """
    making = later.get_egs_tables.MakingTables(**tables)
    later.get_egs_tables.make_from_matrices(making, None if num_targets < 0 else num_targets, options)
