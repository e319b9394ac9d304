import click

from nnet3.cli import later
from nnet3.cli.messages import say
from nnet3.cli.options import arguments, binary_option, flag, number
from nnet3.cli.verb import MODELS, verb
from nnet3.text.values import at_least


@verb("set an acoustic model's priors", MODELS, program="nnet3-am-adjust-priors", program_defaults={"kaldi": True})
@binary_option
@flag("--kaldi", help="As Kaldi's program: without a floor, and with its lines.")
@number("--prior-floor", rule=at_least(0), default=1e-15, help="Smallest prior.")
@arguments(source="MODEL-IN", posteriors="SUMMED-POSTERIORS", output="MODEL-OUT")
def command(source: str, posteriors: str, output: str, binary: bool, kaldi: bool, prior_floor: float) -> None:
    """Set the priors to a vector of summed or averaged posteriors, normalised to sum to one.

    \b
    Example:
      nnet3 am-adjust-priors final.mdl counts.vec final_with_priors.mdl
    """
    model = later.files.load_acoustic_model(source)
    if kaldi:
        for line in later.priors.adjust_as_kaldi(model, posteriors):
            say(line)
    else:
        change = later.priors.adjust(model, posteriors, prior_floor)
        if change:
            click.echo(change, err=True)
    later.files.save_model(model, output, binary)
