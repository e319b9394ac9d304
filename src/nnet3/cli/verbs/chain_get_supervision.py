import click

from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import arguments, flag
from nnet3.cli.verb import CHAIN, verb
from nnet3.options import SupervisingOptions


@verb("say which sequences of pdfs are right for each utterance", CHAIN, program="chain-get-supervision")
@takes("options", SupervisingOptions)
@flag("--lattice-input", help="The table has lattices of phones, not phones and lengths.")
@click.option("--weight", type=float, hidden=True, expose_value=False)  # Kaldi ignores it, too
@arguments(tree="TREE", model="TRANSITION-MODEL", phones="PHONES-RSPECIFIER", output="SUPERVISION-WSPECIFIER")
def command(tree: str, model: str, phones: str, output: str, lattice_input: bool, options: SupervisingOptions) -> int:
    """Say which sequences of pdfs are right for each utterance: those of its phones, at about their times.

    Phones come as pairs (phone, number of frames) or as lattices that are aligned with phones. Tolerances are in
    frames of these. The exit status is 0 if more utterances could be used than not.

    \b
    Example:
      nnet3 chain-get-supervision --frame-subsampling-factor=3 tree 0.trans_mdl \\
        "ark:ali-to-phones --write-lengths=true 0.trans_mdl ark:ali.ark ark:- |" ark:sup.ark
    """
    return later.chain_graphs.make_supervision(tree, model, phones, output, lattice_input, options)
