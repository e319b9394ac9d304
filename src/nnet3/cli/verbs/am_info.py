import click

from nnet3.cli import later
from nnet3.cli.options import arguments, kaldi_option, learning_rates_option
from nnet3.cli.verb import SEEING, verb


@verb("describe an acoustic model", SEEING, program="nnet3-am-info", program_defaults={"kaldi": True})
@kaldi_option
@learning_rates_option
@arguments(source="MODEL")
def command(source: str, kaldi: bool, print_learning_rates: bool) -> None:
    """Describe an acoustic model: transition model, priors and network.

    \b
    Example:
      nnet3 am-info final.mdl
    """
    model = later.files.load_acoustic_model(source)
    if print_learning_rates:
        click.echo(later.network_tables.learning_rates(model.nnet))
        return
    if kaldi:
        click.echo(model.info(), nl=False)
        return
    transitions = model.transition_model
    click.echo(
        f"transition model: {transitions.num_pdfs} pdfs, {len(transitions.phones)} phones, "
        f"{transitions.num_transition_states} transition-states, {transitions.num_transition_ids} transition-ids"
    )
    priors = f"{len(model.priors)}, summing to {float(model.priors.sum()):.6g}" if len(model.priors) else "none"
    click.echo(f"priors: {priors}")
    later.network_tables.print_network(model.nnet)
