"""Determinizes lattices of tables: keeps the best path for each sequence of words.

Acoustic costs of lattices are not scaled; scaled costs decide which path is best.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.lattice_factoring import factored
from nnet3.base.options.lattices import (
    LatticePruningOptions,
    PhoneDeterminizingOptions,
    PrunedDeterminizingOptions,
    WholeDeterminizingOptions,
)
from nnet3.errors import ExecutionError
from nnet3.speech.lattices.determinizing import determinized
from nnet3.speech.lattices.frame_costs import FrameCosts
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.label_sets import Memory, TooLargeError
from nnet3.speech.lattices.minimizing import minimized
from nnet3.speech.lattices.word_lattice import PhoneLabels, finished, narrowed_notices, within_memory

Determinized = tuple[Lattice, list[str]]
"""A lattice, and notices of beams that were narrowed for want of memory."""


def determinized_whole(lattice: Lattice, options: WholeDeterminizingOptions) -> Determinized:
    """Determinizes all paths of a plain lattice, and prunes afterwards if asked to; the result is compact.

    A lattice that needs too much memory is pruned first, in at most `num_loops` tries, with beams that narrow; the last
    beam is that of the pruning afterwards, too.
    Raises ExecutionError for a lattice that is empty, has a cycle, or needs too much memory at every beam tried.
    """
    given, notices = LabelLattice.of(_scaled(lattice, options.acoustic_scale)), list[str]()
    found, beam = None, options.beam
    for loop in range(options.num_loops + 1):
        if loop:
            beam *= options.beam_ratio
            notices = [f"it needs too much memory (max-mem): it was pruned with a beam of {beam:g} first"]
            given = given.pruned(beam)
        try:
            found = determinized(given, np.inf, Memory(options.max_mem))
            break
        except (TooLargeError, MemoryError):
            continue
    if found is None:
        raise ExecutionError(f"it needs too much memory (max-mem) even with a beam of {beam:g}")
    found = found.pruned(beam) if options.prune else found
    return _scaled((minimized(found) if options.minimize else found).lattice(), 1 / options.acoustic_scale), notices


def determinized_by_frame(lattice: Lattice, options: WholeDeterminizingOptions) -> Determinized:
    """Determinizes into a plain lattice whose acoustic costs are means, by frame and transition-id, of the lattice's.

    Graph costs are at the first transition-id of a word. Raises ModelFormatError also for acoustic costs on arcs
    without a transition-id.
    """
    costs = FrameCosts(lattice.plain())
    found, notices = determinized_whole(lattice, options)
    return costs.put_into(found), notices


def determinized_within(
    lattice: Lattice, options: PrunedDeterminizingOptions, compact: bool = True, phones: PhoneLabels | None = None
) -> Determinized:
    """Determinizes the paths of a plain lattice within the beam; if not `compact`, as by `determinized_by_frame`.

    `phones`: labels for a first pass by phones and words, if the options ask for one. An empty lattice stays empty.
    """
    if not lattice.fst.num_states:
        return replace(lattice, is_plain=not compact), []
    costs = None if compact else FrameCosts(lattice.plain())
    by_phone, by_word = phones is not None, True
    if isinstance(options, PhoneDeterminizingOptions):
        by_phone, by_word = by_phone and options.phone_determinize, options.word_determinize
    if not (by_phone or by_word):
        return (factored(lattice.plain()) if compact else lattice.plain()), []
    given = LabelLattice.of(_scaled(lattice.plain(), options.acoustic_scale))
    found, beam = within_memory(given, options.beam, options.max_mem, phones if by_phone else None, not by_word)
    made = _scaled(finished(found, options.minimize, not by_word), 1 / options.acoustic_scale)
    return made if costs is None else costs.put_into(made), narrowed_notices(beam, options.beam)


def pruned(lattice: Lattice, options: LatticePruningOptions) -> Lattice:
    """Returns a compact lattice without arcs and ends that are on no path within the beam.

    The costs of the lattice stay as they are, and so does an empty lattice. Raises ExecutionError for a cycle.
    """
    if not lattice.fst.num_states:
        return lattice
    found = LabelLattice.of(_scaled(lattice, options.acoustic_scale)).pruned(options.beam)
    return _scaled(found.lattice(), 1 / options.acoustic_scale)


def _scaled(lattice: Lattice, scale: float) -> Lattice:
    return lattice if scale == 1.0 else lattice.with_costs(acoustic=(0.0, scale))
