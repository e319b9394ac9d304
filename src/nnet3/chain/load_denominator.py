"""The denominator in a file, for a network."""

from __future__ import annotations

from nnet3.chain.denominator import Denominator
from nnet3.chain.denominator_graph import DenominatorGraph
from nnet3.errors import Nnet3Error, TrainingError
from nnet3.kaldi_io.fst_file import load_fst
from nnet3.nnet import Nnet

OUTPUT = "output"


def load_denominator(den_fst: str, nnet: Nnet, leaky_hmm_coefficient: float, *, insist: bool = False) -> Denominator:
    """The graph must be for as many pdfs as the network's `output` has columns; it serves all outputs. `insist`: it
    need not have the sequences of the examples.

    Nnet3Error, which names the file, if there is no such graph in it, or if the network has no `output`.
    """
    if OUTPUT not in nnet.output_names:
        raise TrainingError(f"sequence training needs a node 'output'; the network has {', '.join(nnet.output_names)}")
    fst = load_fst(den_fst)
    try:
        graph = DenominatorGraph.from_fst(fst, nnet.node_dim(OUTPUT))
    except TrainingError as error:
        raise Nnet3Error(f"{den_fst}: {error}") from None
    return Denominator(graph, leaky_hmm_coefficient, insist=insist)
