"""What verbs about graphs of sequence training do."""

from __future__ import annotations

from nnet3.chain.denominator_graph import DenominatorGraph
from nnet3.chain.graphs.denominator_fst import make_denominator_fst
from nnet3.chain.graphs.normalization import make_normalization_fst
from nnet3.chain.graphs.phone_hmms import PhoneHmms
from nnet3.chain.graphs.phone_lm import estimate_phone_lm
from nnet3.cli.files import check_can_save, load_transitions, open_file
from nnet3.cli.messages import say
from nnet3.hmm.tree import ContextDependency
from nnet3.kaldi_io import load_fst, open_int_vector_table, save_fst
from nnet3.options import PhoneLmOptions


def load_hmms(tree: str, model: str) -> PhoneHmms:
    """A tree and a transition model, which files begin with."""
    return PhoneHmms(load_tree(tree), load_transitions(model))


def load_tree(name: str) -> ContextDependency:
    """The tree in a file."""
    return ContextDependency.read(open_file(name))


def estimate(sequences: str, output: str, options: PhoneLmOptions) -> None:
    """A phone language model from a table of sequences of phones."""
    check_can_save(output)
    with open_int_vector_table(sequences) as table:
        fst = estimate_phone_lm((phones for _, phones in table), options)
    save_fst(fst, output)
    say(f"a phone language model of {fst.num_states} states and {fst.num_arcs} arcs")


def make_denominator(tree: str, model: str, phone_lm: str, denominator: str, normalization: str) -> None:
    """A denominator graph, and the normalization graph that belongs to it."""
    check_can_save(denominator, normalization)
    transitions = load_transitions(model)
    fst = make_denominator_fst(load_tree(tree), transitions, load_fst(phone_lm))
    graph = DenominatorGraph.from_fst(fst, transitions.num_pdfs)
    weights = make_normalization_fst(fst, graph.initial)
    save_fst(fst, denominator)
    save_fst(weights, normalization)
    missing = transitions.num_pdfs - len(set(fst.ilabel.tolist()))
    if missing:
        say(f"warning: {missing} of {transitions.num_pdfs} pdfs do not occur in the denominator graph")
    say(f"a denominator graph of {fst.num_states} states and {fst.num_arcs} arcs")
