from typing import Any

from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import arguments, binary_option, flag, number
from nnet3.cli.verb import ALIGNING, verb
from nnet3.options import TransitionOptions
from nnet3.text.values import at_least


@verb("train the transitions of an acoustic model", ALIGNING, program="nnet3-am-train-transitions")
@binary_option
@takes("options", TransitionOptions)
@flag("--set-priors", default=True, show_default=True, help="Set the priors of pdfs too.")
@number("--prior-floor", rule=at_least(0), default=5e-6, help="Smallest prior.")
@arguments(model="MODEL-IN", alignments="ALIGNMENTS-RSPECIFIER", output="MODEL-OUT")
def command(set_priors: bool, prior_floor: float, **given: Any) -> None:
    """Set the transition probabilities of an acoustic model to those of alignments, and its priors to shares of pdfs.

    \b
    Example:
      nnet3 am-train-transitions 0.mdl ark:ali.ark 1.mdl
    """
    later.alignment_tables.train_transitions(**given, prior_floor=prior_floor if set_priors else None)
