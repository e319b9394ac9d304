"""Replaces costs of language models in lattices: subtracts old models, adds new ones (facts: rescoring.md, 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.options.rescoring import ComposeOptions
from nnet3.speech.language_models.word_acceptor import JointAcceptor, ScaledAcceptor, WordAcceptor
from nnet3.speech.lattices.determinizing import determinized
from nnet3.speech.lattices.label_sets import Memory
from nnet3.speech.lattices.lattice_composition import WordFst, composed, composed_with_fst
from nnet3.speech.lattices.lattice_states import label_lattice, sorted_by_label
from nnet3.speech.lattices.pruned_composition import composed_pruned


def rescored(lattice: Lattice, acceptor: WordAcceptor, scale: float) -> Lattice:
    """Returns the lattice with `scale` times the costs of a model added: 1 adds the model, -1 takes it away.

    Of paths with equal words the cheapest is left, by graph cost / scale + model cost + acoustic cost. The result is
    empty if the model accepts no path; with a scale of 0 the lattice is returned.
    """
    return _with(lattice, scale, lambda scaled: composed(sorted_by_label(scaled), acceptor))


def rescored_by_fst(lattice: Lattice, fst: WordFst, scale: float) -> Lattice:
    """Returns `rescored` by an FST of words, of which words take the cheapest way, by arcs without words or not."""
    return _with(lattice, scale, lambda scaled: composed_with_fst(scaled, fst))


def exchange(old: WordAcceptor, new: WordAcceptor, scale: float) -> WordAcceptor:
    """Returns a model with `scale` times the costs of `new`, those of `old` taken away."""
    return JointAcceptor(ScaledAcceptor(old, -scale), ScaledAcceptor(new, scale))


def exchanged(
    lattice: Lattice,
    old: WordAcceptor,
    new: WordAcceptor,
    scale: float,
    options: ComposeOptions,
    acoustic_scale: float = 1.0,
    added: Sequence[WordAcceptor] = (),
) -> Lattice:
    """Returns the good paths of the lattice with `scale` times the costs of `new` added, those of `old` taken away.

    Before, all paths get the costs of the models `added`, one model after the other. Paths are compared with acoustic
    costs times `acoustic_scale`. Equal words may be on several paths; the result may be empty.
    """
    joint = exchange(old, new, scale)
    if acoustic_scale == 1:
        return composed_pruned(lattice, joint, options, added)
    scaled = lattice.with_costs(acoustic=(0.0, acoustic_scale))
    return composed_pruned(scaled, joint, options, added).with_costs(acoustic=(0.0, 1 / acoustic_scale))


def _with(lattice: Lattice, scale: float, compose: Callable[[Lattice], Lattice]) -> Lattice:
    if scale == 0:
        return lattice
    made = compose(lattice.with_costs(graph=(1 / scale, 0.0)))
    return best_of_words(made).with_costs(graph=(scale, 0.0))


def best_of_words(lattice: Lattice) -> Lattice:
    """Returns the lattice with the best path for each sequence of words."""
    if not lattice.fst.num_states:
        return lattice
    return determinized(label_lattice(lattice), np.inf, Memory(np.inf)).lattice()
