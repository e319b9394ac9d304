from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import arguments, flag
from nnet3.cli.verb import GRAPHS, verb
from nnet3.options import DecodingGraphOptions


@verb("make a decoding graph", GRAPHS)
@takes("options", DecodingGraphOptions)
@flag("--remove-oov", hidden=True, expose_value=False)
@arguments(lang="LANG-FOLDER", model="MODEL-FOLDER", folder="GRAPH-FOLDER")
def command(lang: str, model: str, folder: str, options: DecodingGraphOptions) -> None:
    """Make HCLG.fst, from transition-ids to words, of L_disambig.fst and G.fst in LANG-FOLDER and of tree and final.mdl
    in MODEL-FOLDER. Symbols and lists of phones are copied beside it. Chain models take --self-loop-scale=1.0.

    \b
    Example:
      nnet3 mkgraph --self-loop-scale=1.0 data/lang_test exp/chain/tdnn exp/chain/tdnn/graph
    """
    later.graph_making.make_graph(lang, model, folder, options)
