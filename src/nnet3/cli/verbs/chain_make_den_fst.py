from nnet3.cli import later
from nnet3.cli.options import arguments
from nnet3.cli.verb import CHAIN, verb


@verb("make a denominator graph and a normalization graph", CHAIN, program="chain-make-den-fst")
@arguments(
    tree="TREE",
    model="TRANSITION-MODEL",
    phone_lm="PHONE-LM",
    denominator="DEN-FST-OUT",
    normalization="NORMALIZATION-FST-OUT",
)
def command(tree: str, model: str, phone_lm: str, denominator: str, normalization: str) -> None:
    """Make the graph of all sequences of pdfs, weighted by a phone language model, and from it the one that weights
    supervision. The transition model may be any model that begins with one. It needs kaldifst.

    \b
    Example:
      nnet3 chain-make-den-fst tree 0.trans_mdl phone_lm.fst den.fst normalization.fst
    """
    later.chain_graphs.make_denominator(tree, model, phone_lm, denominator, normalization)
