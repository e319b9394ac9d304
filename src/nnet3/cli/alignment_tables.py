"""Turns tables of alignments into phones, pdfs, posteriors and counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import numpy as np

from nnet3.base.kaldi_io.load import write_wxfilename
from nnet3.base.kaldi_io.replacing import MODEL
from nnet3.base.kaldi_io.symbols import load_symbols
from nnet3.base.kaldi_io.table_values import (
    Posterior,
    int_vector_writer,
    open_int_vector_table,
    open_posterior_table,
    pair_writer,
    posterior_writer,
)
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.alignment import TransitionOptions
from nnet3.cli.files import (
    check_can_save,
    load_acoustic_model,
    load_transitions,
    numbers_kind,
    open_file,
    save,
    save_model,
)
from nnet3.cli.messages import naming, say
from nnet3.errors import Nnet3Error
from nnet3.model.hmm.segments import phone_segments
from nnet3.model.hmm.transition_model import TransitionModel, estimate_transitions, pdf_priors
from nnet3.model.nnet import AcousticModel

T = TypeVar("T")
_FINE_SHIFT = 0.01  # seconds: from here on two decimals do


def phones_of(alignment: np.ndarray, model: TransitionModel) -> np.ndarray:
    """Returns phones and how many frames each has, (phones, 2), of transition-ids (frames,)."""
    if len(alignment) == 0:
        return np.zeros((0, 2), np.int32)
    first, phones = phone_segments(alignment, model, "transition-ids")
    return np.column_stack([phones, np.diff(np.append(first, len(alignment)))])


def _made(source: str, make: Callable[[np.ndarray], T]) -> Iterator[tuple[str, T]]:
    """Yields the results of `make` for a table's alignments, and says their number at the end.

    Errors of `make` name the utterance.
    """
    count = 0
    with open_int_vector_table(source) as table:
        for key, alignment in table:
            count += 1
            with naming(source, key):
                made = make(alignment)
            yield key, made
    say(f"{count} alignments")


def to_phones(model: str, alignments: str, output: str, per_frame: bool, lengths: bool) -> None:
    """Writes the phones of alignments: one a segment, one a frame, or with numbers of frames."""
    transitions = load_transitions(model)
    if lengths:
        with pair_writer(output) as pairs:
            for key, found in _made(alignments, partial(phones_of, model=transitions)):
                pairs.write(key, found)
        return
    with int_vector_writer(output) as writer:
        for key, found in _made(alignments, partial(phones_of, model=transitions)):
            phones, frames = found.T
            writer.write(key, np.repeat(phones, frames) if per_frame else phones)


def to_ctm(model: str, alignments: str, output: str, frame_shift: float) -> None:
    """Writes the phones of alignments with times in seconds, one a line; times are added up in float32, as in Kaldi."""
    transitions, writer = load_transitions(model), Writer(binary=False)
    digits = 2 if float(np.float32(frame_shift)) >= _FINE_SHIFT else 3
    for key, found in _made(alignments, partial(phones_of, model=transitions)):
        seconds = np.float32(frame_shift) * found[:, 1].astype(np.float32)
        begins = np.append(np.float32(0), np.cumsum(seconds, dtype=np.float32))
        for phone, begin, lasts in zip(found[:, 0].tolist(), begins.tolist(), seconds.tolist(), strict=False):
            writer.text_line(f"{key} 1 {begin:.{digits}f} {lasts:.{digits}f} {phone}")
    write_wxfilename(output, writer)


def to_pdfs(model: str, alignments: str, output: str) -> None:
    """Writes the pdf of each frame."""
    transitions = load_transitions(model)
    with int_vector_writer(output) as writer:
        for key, pdfs in _made(alignments, transitions.pdf):
            writer.write(key, pdfs)


def to_posteriors(alignments: str, output: str) -> None:
    """Writes posteriors in which the transition-id of each frame has the weight 1."""
    with posterior_writer(output) as writer:
        for key, posterior in _made(alignments, _posterior):
            writer.write(key, posterior)
        if writer.count == 0:
            raise Nnet3Error(f"{alignments}: there are no alignments")


def _posterior(alignment: np.ndarray) -> Posterior:
    return Posterior(np.arange(len(alignment) + 1), alignment, np.ones(len(alignment), np.float32))


def count_posteriors(model: str, posteriors: str, output: str, binary: bool, per_pdf: bool) -> None:
    """Writes the summed weights of transition-ids, from 0 on, or of pdfs, without the last transition-id."""
    check_can_save(numbers_kind(binary), output)
    transitions = load_transitions(model)
    counts: np.ndarray = np.zeros(transitions.num_transition_ids + 1)
    utterances = 0
    with open_posterior_table(posteriors) as table:
        for key, posterior in table:
            utterances += 1
            with naming(posteriors, key):
                transitions.pdf(posterior.ids)  # they are in range
            counts += np.bincount(posterior.ids, posterior.weights, len(counts))
    if utterances == 0:
        raise Nnet3Error(f"{posteriors}: there are no posteriors")
    if per_pdf:
        ids = np.arange(1, transitions.num_transition_ids)
        counts = np.bincount(transitions.pdf(ids), counts[ids], transitions.num_pdfs)
    save(output, binary, lambda writer: writer.vector(counts, double=True))


def shown(symbols: str, model: str, alignments: str) -> Iterator[str]:
    """Yields lines: the transition-ids of each utterance phone by phone, the names of the phones, and an empty one.

    A phone that the table lacks has no name.
    """
    names, transitions = load_symbols(symbols), load_transitions(model)
    for key, (alignment, pairs) in _made(alignments, lambda each: (each, phones_of(each, transitions))):
        pieces = np.split(alignment, np.cumsum(pairs[:-1, 1]) if len(pairs) else [])
        columns = [
            (f"[ {' '.join(map(str, piece.tolist()))} ] ", f"{names.names.get(phone, '')} ")
            for piece, phone in zip(pieces, pairs[:, 0].tolist(), strict=False)
        ]
        widths = [max(map(len, column)) for column in columns]
        for row in range(2):
            yield f"{key}  " + "".join(c[row].ljust(width) for c, width in zip(columns, widths, strict=True))
        yield ""


def facts_of_transitions(model: str) -> Iterator[str]:
    """Yields how many phones, pdfs and so on a transition model has, a line each."""
    transitions = load_transitions(model)
    yield f"number of phones {len(transitions.phones)}"
    yield f"number of pdfs {transitions.num_pdfs}"
    yield f"number of transition-ids {transitions.num_transition_ids}"
    yield f"number of transition-states {transitions.num_transition_states}"


def shown_transitions(symbols: str, model: str, counts: str) -> Iterator[str]:
    """Yields lines: each transition-state, then its transition-ids with probabilities, counts of pdfs, and ends."""
    names, transitions = load_symbols(symbols), load_transitions(model)
    count_of = open_file(counts).whole(lambda reader: reader.vector(np.float64)) if counts else None
    if count_of is not None and len(count_of) != transitions.num_pdfs:
        raise Nnet3Error(f"{counts}: it has {len(count_of)} counts, {model} has {transitions.num_pdfs} pdfs")
    ids = transitions.transition_ids
    states = transitions.transition_state(ids)
    probs = np.exp(transitions.log_prob(ids).astype(np.float64)).astype(np.float32)  # rounded as expf
    self_loop, index, pdf = transitions.is_self_loop(ids), transitions.transition_index(ids), transitions.pdf(ids)
    topology = transitions.topology
    first = np.searchsorted(states, np.arange(1, transitions.num_transition_states + 2)).tolist()
    for state, (phone, hmm_state, forward, loop) in enumerate(transitions.tuples.tolist()):
        pdfs = f"pdf = {forward}" if topology.is_hmm else f"forward-pdf = {forward} self-loop-pdf = {loop}"
        yield f"Transition-state {state + 1}: phone = {names[phone]} hmm-state = {hmm_state} {pdfs}"
        ends = topology.entries[topology.entry_of_phone[phone]].states[hmm_state].transitions
        for place in range(first[state], first[state + 1]):
            counted = "" if count_of is None else f" count of pdf = {count_of[pdf[place]]:g}"
            end = "self-loop" if self_loop[place] else f"{hmm_state} -> {ends[index[place]][0]}"
            yield f" Transition-id = {ids[place]} p = {probs[place]:g}{counted} [{end}]"


def train_transitions(
    model: str, alignments: str, output: str, binary: bool, options: TransitionOptions, prior_floor: float | None
) -> None:
    """Writes an acoustic model with transition probabilities of alignments; with a `prior_floor` also their priors."""
    check_can_save(MODEL, output)
    acoustic = load_acoustic_model(model)
    transitions = acoustic.transition_model
    counts, utterances = np.zeros(transitions.num_transition_ids + 1), 0
    for _, (_, alignment) in _made(alignments, lambda each: (transitions.pdf(each), each)):  # they are in range
        counts += np.bincount(alignment, minlength=len(counts))
        utterances += 1
    say(f"Accumulated transition stats from {utterances} utterances.")
    found = estimate_transitions(transitions, counts, options)
    what = "pdf-ids" if options.share_for_pdfs else f"out of {transitions.num_transition_states} transition-states"
    say(f"objf change is {found.gain:g} per frame over {found.frames:g} frames.")
    say(f"{found.floored} probabilities floored, {found.skipped} {what} skipped due to insufficient data")
    priors = acoustic.priors if prior_floor is None else pdf_priors(transitions, counts, prior_floor)
    save_model(AcousticModel(found.model, acoustic.nnet, priors), output, binary)


def copy_transitions(model: str, output: str, binary: bool) -> None:
    """Writes the transition model that a file begins with."""
    save(output, binary, load_transitions(model).write_to)
