import click

from nnet3.cli import later
from nnet3.cli.messages import print_warnings
from nnet3.cli.options import arguments, binary_option
from nnet3.cli.verb import MODELS, verb


@verb("make an acoustic model from a transition model and a network", MODELS, program="nnet3-am-init")
@binary_option
@arguments(names="{TRANSITION-MODEL | TREE TOPOLOGY} RAW-IN MODEL-OUT")
def command(names: tuple[str, ...], binary: bool) -> None:
    """Join a transition model and a raw network. Priors are not set.

    The transition model is given as a file, which may be any model that begins with one, or made of a tree and a
    topology, with the topology's transition probabilities.

    \b
    Examples:
      nnet3 am-init tri3.mdl 0.raw 0.mdl
      nnet3 am-init tree topo 0.raw 0.mdl
    """
    if len(names) not in (3, 4):
        raise click.UsageError("give a transition model, or a tree and a topology; then a raw network and the output")
    *sources, network, output = names
    transitions = (
        later.files.load_transitions(*sources) if len(sources) == 1 else later.files.make_transitions(*sources)
    )
    model = later.acoustic_model.AcousticModel(transitions, later.files.load_network(network))
    print_warnings([*transitions.topology.warnings, *model.warnings] if len(sources) == 2 else model.warnings)
    later.files.save_model(model, output, binary)
