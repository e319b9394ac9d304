"""Makes the graphs of sequence training: phone language model, denominator, supervision."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from nnet3.chain.denominator_graph import DenominatorGraph
from nnet3.chain.graphs.denominator_fst import make_denominator_fst
from nnet3.chain.graphs.normalization import make_normalization_fst
from nnet3.chain.graphs.phone_hmms import PhoneHmms
from nnet3.chain.graphs.phone_lm import estimate_phone_lm
from nnet3.chain.graphs.supervising import supervise
from nnet3.chain.graphs.timed_phones import TimedPhones, phones_of_durations, phones_of_lattice
from nnet3.chain.supervision import Supervision
from nnet3.chain.supervision_file import write_supervision
from nnet3.cli.files import check_can_save, load_transitions, open_file
from nnet3.cli.messages import say
from nnet3.errors import TrainingError
from nnet3.hmm.tree import ContextDependency
from nnet3.kaldi_io import (
    TableReader,
    TableWriter,
    load_fst,
    open_int_vector_table,
    open_pair_table,
    save_fst,
)
from nnet3.kaldi_io.lattice import open_lattice_table
from nnet3.options import PhoneLmOptions, SupervisingOptions

T = TypeVar("T")


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


def make_supervision(
    tree: str, model: str, phones: str, output: str, lattice_input: bool, settings: SupervisingOptions
) -> int:
    """Writes the supervision of all utterances; returns the exit status."""
    hmms = PhoneHmms(load_tree(tree), load_transitions(model))
    with TableWriter(output, write_supervision) as writer:
        if lattice_input:
            lattices = open_lattice_table(phones)
            timed = partial(phones_of_lattice, lm_scale=settings.lm_scale)
            failed = _supervise_all(lattices, timed, hmms, settings, writer)
        else:
            failed = _supervise_all(open_pair_table(phones), phones_of_durations, hmms, settings, writer)
    say(f"supervision of {writer.count} utterances; {failed} could not be used")
    return 0 if writer.count > failed else 1


def _supervise_all(
    table: TableReader[T],
    phones_of: Callable[[T], TimedPhones],
    hmms: PhoneHmms,
    settings: SupervisingOptions,
    writer: TableWriter[Supervision],
) -> int:
    """Returns how many utterances could not be used."""
    failed = 0
    with table:
        for key, value in table:
            try:
                supervision = supervise(phones_of(value), hmms, settings)
            except TrainingError as error:
                failed += 1
                say(f"warning: {key} is left out: {error}")
                continue
            writer.write(key, supervision)
    return failed
