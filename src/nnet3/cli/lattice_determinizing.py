"""Determinizes, prunes, pushes and minimizes tables of lattices."""

from __future__ import annotations

from collections.abc import Callable

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.lattice_file import lattice_writer
from nnet3.base.options.lattices import (
    LatticePruningOptions,
    PhoneDeterminizingOptions,
    PrunedDeterminizingOptions,
    WholeDeterminizingOptions,
)
from nnet3.cli.files import load_transitions
from nnet3.cli.lattice_reading import LEFT_OUT, read_lattices
from nnet3.cli.messages import LeftOut, say
from nnet3.speech.lattices import lattice_determinizing as work
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.lattice_posteriors import depths as arcs_by_frame
from nnet3.speech.lattices.minimizing import minimized, pushed
from nnet3.speech.lattices.word_lattice import PhoneLabels


def determinize(lattices: str, output: str, options: WholeDeterminizingOptions) -> int:
    """Writes compact lattices. Returns 1, an exit status, without any."""
    return _write(lattices, output, lambda lattice: work.determinized_whole(lattice, options), depths=True)


def determinize_non_compact(lattices: str, output: str, options: WholeDeterminizingOptions) -> int:
    """Writes lattices with an arc for each frame. Returns 1, an exit status, without any."""
    return _write(lattices, output, lambda lattice: work.determinized_by_frame(lattice, options), depths=True)


def determinize_pruned(lattices: str, output: str, options: PrunedDeterminizingOptions, write_compact: bool) -> int:
    """Writes lattices within a beam. Returns 1, an exit status, without any."""
    return _write(
        lattices, output, lambda lattice: work.determinized_within(lattice, options, write_compact), depths=True
    )


def determinize_phone_pruned(
    model: str, lattices: str, output: str, options: PhoneDeterminizingOptions, write_compact: bool
) -> int:
    """Writes lattices within a beam, determinized as the decoders do it. Returns 1, an exit status, without any."""
    phones = PhoneLabels(load_transitions(model))
    return _write(lattices, output, lambda lattice: work.determinized_within(lattice, options, write_compact, phones))


def prune(lattices: str, output: str, options: LatticePruningOptions) -> int:
    """Writes compact lattices without what is worse than the beam. Returns 1, an exit status, without any."""
    sizes = []

    def pruned(lattice: Lattice) -> work.Determinized:
        found = work.pruned(lattice, options)
        sizes.append([lattice.fst.num_states, found.fst.num_states, lattice.fst.num_arcs, found.fst.num_arcs])
        return found, []

    status = _write(lattices, output, pruned, compact=True)
    if sizes:
        states, left, arcs, arcs_left = (sum(column) / len(sizes) for column in zip(*sizes, strict=True))
        say(
            f"Overall, pruned from on average {states:g} to {left:g} states, and from {arcs:g} to {arcs_left:g} arcs, "
            f"over {len(sizes)} utterances."
        )
    return status


def push(lattices: str, output: str, push_strings: bool, push_weights: bool, minimize: bool = False) -> int:
    """Writes compact lattices whose transition-ids and costs stand as early as can be, minimized afterwards if wanted.
    Returns 1, an exit status, without any.
    """
    change = minimized if minimize else pushed

    def changed(lattice: Lattice) -> work.Determinized:
        return change(LabelLattice.of(lattice), push_strings, push_weights).lattice(), []

    return _write(lattices, output, changed, compact=True)


def _write(
    lattices: str,
    output: str,
    change: Callable[[Lattice], work.Determinized],
    *,
    compact: bool = False,
    depths: bool = False,
) -> int:
    """Writes changed lattices, read compact or plain; leaves out, with a warning, what cannot be changed.

    `depths`: says how many states a frame had, and how many arcs it has then.
    """
    left_out = LeftOut(LEFT_OUT)
    states = arcs = frames = 0
    with lattice_writer(output) as writer:
        for key, lattice in read_lattices(lattices, compact):
            made = left_out.made(key, change, lattice)
            if made is None:
                continue
            found, notices = made
            for notice in notices:
                say(f"warning: lattice '{key}': {notice}")
            writer.write(key, found)
            if depths:
                crossing = arcs_by_frame(found)
                states, arcs = states + lattice.fst.num_states, arcs + int(crossing.sum())
                frames += len(crossing)
        if depths and frames:
            say(
                f"Average input-lattice depth (measured at state level) is {states / frames:g}, output depth is "
                f"{arcs / frames:g}, over {frames} frames (average num-frames = {frames / writer.count:g})."
            )
        say(f"Done {writer.count} lattices, errors on {left_out.failed}")
        return int(writer.count == 0)
