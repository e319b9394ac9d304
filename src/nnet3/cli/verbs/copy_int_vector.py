from nnet3.cli import later
from nnet3.cli.options import arguments, binary_option
from nnet3.cli.verb import TABLES, verb


@verb("copy vectors of integers, such as alignments", TABLES, program="copy-int-vector")
@binary_option
@arguments(source="IN", output="OUT")
def command(source: str, output: str, binary: bool) -> None:
    """Copy a table of vectors of integers, or one in a file. --binary is about a file.

    \b
    Example:
      nnet3 copy-int-vector ark:ali.ark ark,t:-
    """
    later.table_inquiry.copy_int_vectors(source, output, binary)
