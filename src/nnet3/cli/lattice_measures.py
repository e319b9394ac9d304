"""What tables of lattices tell of arcs and frames: posteriors, depths, phones."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice, Strings
from nnet3.base.kaldi_io.lattice_factoring import factored
from nnet3.base.kaldi_io.lattice_file import lattice_writer
from nnet3.base.kaldi_io.lattice_states import state_times, topologically_sorted
from nnet3.base.kaldi_io.load import write_wxfilename
from nnet3.base.kaldi_io.specifiers import NO_TABLE
from nnet3.base.kaldi_io.table_values import int_vector_writer, posterior_writer, real_writer
from nnet3.base.kaldi_io.writer import Writer
from nnet3.cli.files import load_transitions
from nnet3.cli.lattice_reading import each_lattice
from nnet3.cli.lattice_words import Scales
from nnet3.cli.messages import say
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.lattice_posteriors import arc_posteriors, depths, frame_posteriors


def write_depths(lattices: str, output: str) -> int:
    """Writes how many arcs cross a frame on average. Returns 1, an exit status, if all lattices are left out."""
    crossings = frames = 0
    with real_writer(output or NO_TABLE) as writer:
        for key, found in each_lattice(lattices, depths):
            writer.write(key, found.mean() if len(found) else 1.0)
            crossings, frames = crossings + int(found.sum()), frames + len(found)
    say(f"Overall density is {crossings / max(frames, 1):g} over {frames} frames.")
    return int(not writer.count)


def write_depths_by_frame(lattices: str, output: str, copied: str) -> int:
    """Writes how many arcs cross each frame, and copies the lattices if they are asked for.

    Returns 1, an exit status, if all lattices are left out.
    """
    with int_vector_writer(output) as writer, lattice_writer(copied or NO_TABLE) as copies:
        for key, (found, lattice) in each_lattice(lattices, lambda lattice: (depths(lattice), lattice)):
            writer.write(key, found.astype(np.int32))
            copies.write(key, lattice)
        return int(not writer.count)


def write_arc_posteriors(
    model: str, lattices: str, output: str, scales: Scales, least: float, print_alignment: bool
) -> int:
    """Writes a line for each arc that is more likely than `least`. Returns 1, an exit status, without any line."""
    transitions = load_transitions(model) if model else None
    writer, lines = Writer(binary=False), 0

    def lines_of(lattice: Lattice) -> list[str]:
        return _arc_lines(topologically_sorted(scales.of(lattice)), transitions, least, print_alignment)

    for key, found in each_lattice(lattices, lines_of):
        if not found:
            say(f"warning: lattice '{key}': no arc is that likely")
        for line in found:
            writer.text_line(f"{key}\t{line}")
        lines += len(found)
    write_wxfilename(output, writer)
    say(f"Printed {lines} posteriors.")
    return int(not lines)


def _arc_lines(lattice: Lattice, model: TransitionModel | None, least: float, print_alignment: bool) -> list[str]:
    """Returns the first frame, the frames, the posterior, the word and so on of arcs, in the order of the lattice."""
    if not lattice.fst.num_states:
        return []
    numbered = replace(lattice, fst=replace(lattice.fst, ilabel=np.arange(lattice.fst.num_arcs, dtype=np.int32)))
    numbered = replace(numbered, fst=replace(numbered.fst, olabel=numbered.fst.ilabel))
    reached = LabelLattice.of(numbered)
    log_probs = np.full(lattice.fst.num_arcs, -np.inf)
    log_probs[reached.label] = np.minimum(arc_posteriors(reached).log_probs, 0)
    probs = np.exp(log_probs).astype(np.float32)
    kept = np.flatnonzero(probs > least)
    ids = lattice.transition_ids[kept]
    first, word = state_times(lattice)[lattice.fst.src[kept]].tolist(), lattice.fst.ilabel[kept].tolist()
    lines = [
        f"{begin}\t{count}\t{prob:.7g}\t{label}"
        for begin, count, prob, label in zip(first, ids.lengths.tolist(), probs[kept].tolist(), word, strict=True)
    ]
    columns = [_joined(ids, ",")] if print_alignment else []
    columns += [] if model is None else [_joined(_phones(ids, model), " ")]
    return ["\t".join(row) for row in zip(lines, *columns, strict=True)]


def _joined(strings: Strings, between: str) -> list[str]:
    texts, edges = list(map(str, strings.values.tolist())), strings.offsets.tolist()
    return [between.join(texts[first:end]) for first, end in pairwise(edges)]


def _phones(ids: Strings, model: TransitionModel) -> Strings:
    """Returns the phone of each transition-id that leads to the end of a phone."""
    is_final = model.is_final(ids.values) if len(ids.values) else np.zeros(0, bool)
    counts = np.diff(np.append(0, np.cumsum(is_final))[ids.offsets])
    chosen = ids.values[is_final]
    return Strings.of(counts, model.phone(chosen) if len(chosen) else chosen)


def write_posteriors(lattices: str, output: str, log_likelihoods: str, scales: Scales) -> int:
    """Writes posteriors of the transition-ids of each frame, and log-likelihoods of lattices if they are asked for.

    Returns 1, an exit status, if all lattices are left out.
    """
    total = acoustic = 0.0
    frames = 0
    with posterior_writer(output) as writer, real_writer(log_likelihoods or NO_TABLE) as likelihoods:
        for key, found in each_lattice(lattices, lambda lattice: frame_posteriors(scales.of(lattice))):
            writer.write(key, found.posterior)
            likelihoods.write(key, found.total)
            total, acoustic = total + found.total, acoustic + found.acoustic
            frames += len(found.posterior.indptr) - 1
    count = max(frames, 1)
    say(f"Overall average log-like/frame is {total / count:g} over {frames} frames, acoustic {acoustic / count:g}")
    return int(not writer.count)


def write_phones(model: str, lattices: str, output: str, replace_words: bool) -> int:
    """Writes lattices with phones in the place of words, or in the place of transition-ids.

    Returns 1, an exit status, if all lattices are left out.
    """
    transitions = load_transitions(model)

    def changed(lattice: Lattice) -> Lattice:
        if replace_words:
            return factored(_with_phones(lattice.plain(), transitions))
        lattice = factored(lattice) if lattice.is_plain else lattice
        strings = lattice.transition_ids, lattice.final_transition_ids
        phones, final_phones = (_phones(ids, transitions) for ids in strings)
        return replace(lattice, transition_ids=phones, final_transition_ids=final_phones)

    with lattice_writer(output) as writer:
        for key, lattice in each_lattice(lattices, changed):
            writer.write(key, lattice)
        return int(not writer.count)


def _with_phones(plain: Lattice, model: TransitionModel) -> Lattice:
    """Returns a plain lattice with a phone where it begins, in the place of words."""
    ids = plain.transition_ids
    begins = (model.hmm_state(ids.values) == 0) & ~model.is_self_loop(ids.values)
    label = np.zeros(plain.fst.num_arcs, np.int32)
    label[ids.lengths > 0] = np.where(begins, model.phone(ids.values), 0)
    return replace(plain, fst=replace(plain.fst, ilabel=label, olabel=label))
