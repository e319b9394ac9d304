from nnet3.cli import later
from nnet3.cli.options import arguments, flag
from nnet3.cli.verb import TABLES, verb


@verb("sum the rows of each matrix of a table", TABLES, program="matrix-sum-rows")
@flag("--do-average", "average", help="Means of the rows instead of sums.")
@arguments(matrices="MATRICES-RSPECIFIER", output="VECTORS-WSPECIFIER")
def command(matrices: str, output: str, average: bool) -> None:
    """Sum the rows of each matrix of a table, and write a table of vectors with the same keys.

    \b
    Example:
      nnet3 matrix-sum-rows ark:posteriors.ark ark:sums.ark
    """
    later.vector_sums.sum_rows(matrices, output, average)
