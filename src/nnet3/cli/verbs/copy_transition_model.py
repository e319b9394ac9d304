from nnet3.cli import later
from nnet3.cli.options import arguments, binary_option
from nnet3.cli.verb import MODELS, verb


@verb("copy the transition model of a model", MODELS, program="copy-transition-model")
@binary_option
@arguments(model="MODEL-IN", output="TRANSITION-MODEL-OUT")
def command(model: str, output: str, binary: bool) -> None:
    """Write the transition model that a file begins with, alone.

    \b
    Example:
      nnet3 copy-transition-model --binary=false final.mdl -
    """
    later.alignment_tables.copy_transitions(model, output, binary)
