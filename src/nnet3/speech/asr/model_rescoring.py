"""Rescores results with the larger language models of a model directory, as Vosk does."""

from __future__ import annotations

import logging
import threading
from functools import cached_property
from pathlib import Path

from nnet3.base.kaldi_io.graph_file import load_graph
from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.symbols import SymbolTable
from nnet3.base.options.rescoring import ComposeOptions
from nnet3.errors import ArgumentError, ModelFormatError, Nnet3Error
from nnet3.speech.asr.rescoring_files import NEW, OLD, RescoringFiles
from nnet3.speech.language_models.backoff_acceptor import words_of_grammar
from nnet3.speech.language_models.const_arpa import ConstArpa
from nnet3.speech.language_models.const_arpa_acceptor import ConstArpaAcceptor
from nnet3.speech.language_models.const_arpa_file import load_const_arpa
from nnet3.speech.language_models.graph_words import check_words, digest_of_grammar
from nnet3.speech.language_models.rnnlm import Rnnlm
from nnet3.speech.language_models.rnnlm_acceptor import RnnlmAcceptor
from nnet3.speech.language_models.word_acceptor import ScaledAcceptor
from nnet3.speech.lattices.cheapest_acceptor import CheapestAcceptor
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.lattice_composition import WordFst, composed_in_turn
from nnet3.speech.lattices.lattice_states import is_deterministic, label_lattice
from nnet3.speech.lattices.native_composition import NativeComposition
from nnet3.speech.lattices.rescoring import exchange, exchanged, rescored_by_fst

_LOG = logging.getLogger("nnet3")
_SHARE = 0.5  # of an RNNLM; the n-gram model keeps the rest
_NGRAM_ORDER = 4
_BOUNDS = ComposeOptions(lattice_compose_beam=3.0, max_arcs=3000)
_ALL_STAGES = 3
_MOST_STATES = 200_000  # that acceptors keep for further results
_DISAMBIGUATION = "#"


class Rescoring:
    """Language models that weigh the words of results anew (facts: rescoring.md, 4).

    The costs of the graph's own model are taken away, and those of the n-gram model added; with an RNNLM, half of the
    latter are exchanged for half of the RNNLM's, on good paths alone. Threads may share it.
    """

    def __init__(self, old: WordFst, new: ConstArpa, rnnlm: Rnnlm | None = None):
        self._old, self._new, self._rnnlm = old, new, rnnlm
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        """Begins new acceptors, since acceptors keep every arc asked for."""
        self._acceptors = CheapestAcceptor(self._old), ConstArpaAcceptor(self._new)

    @classmethod
    def load(cls, files: RescoringFiles, words: SymbolTable, words_file: Path | None = None) -> Rescoring:
        """Loads the models. Raises ModelFormatError for damaged files, and for models of other words than `words`."""
        if words_file is not None:
            check_words(files.old, words_file, digest_of_grammar(files.old))
        try:
            old = WordFst(words_of_grammar(load_graph(files.old).fst))
        except ModelFormatError as error:
            raise error if error.source else ModelFormatError(error.message, str(files.old)) from None
        new = load_const_arpa(files.new)
        _check_count(files.old, old.fst.largest_label + 1, words, at_most=True)
        _check_count(files.new, len(new.unigrams), words, at_most=True)
        _check_ends(files.new, new.bos, new.eos, words)
        if files.rnnlm is None:
            return cls(old, new)
        try:
            rnnlm = Rnnlm.load(files.rnnlm)
        except (ArgumentError, ModelFormatError) as error:
            known = isinstance(error, ModelFormatError) and error.source
            raise error if known else ModelFormatError(str(error), str(files.rnnlm)) from None
        _check_count(files.rnnlm, rnnlm.num_words, words, at_most=False)
        _check_ends(files.rnnlm, rnnlm.options.bos_symbol, rnnlm.options.eos_symbol, words)
        return cls(old, new, rnnlm)

    def of(self, lattice: LabelLattice) -> LabelLattice | None:
        """Rescores a result's lattice; None, with a warning, where each path has a word unknown to a model.

        With a damaged model, returns the lattice unchanged, with a warning.
        """
        try:
            native = self._native
            found = None if native is None else native.labelled(lattice)
            if found is None:
                made = self.after(lattice.lattice(), _ALL_STAGES)
                found = label_lattice(made) if made.fst.num_states else None
        except Nnet3Error as error:
            _LOG.warning("the words are those of the search graph alone: %s", error)
            return lattice
        if found is not None and found.num_states:
            return found
        _LOG.warning("no words are left: all that was heard has words that %s or %s does not know", OLD, NEW)
        return None

    @cached_property
    def _native(self) -> NativeComposition | None:
        """All stages in C."""
        old, new = self._acceptors
        added = ScaledAcceptor(old, -1.0), new
        if self._rnnlm is None:
            return NativeComposition.of(added)
        return NativeComposition.of(added, exchange(new, RnnlmAcceptor(self._rnnlm, _NGRAM_ORDER), _SHARE), _BOUNDS)

    def after(self, lattice: Lattice, stages: int) -> Lattice:
        """Returns the lattice after 1 to 3 stages: without the old model, with the new one, with the RNNLM's share."""
        with self._lock:  # acceptors grow, and the computers of a network are for one thread at a time
            if any(len(acceptor) > _MOST_STATES for acceptor in self._acceptors):
                self._forget()
            old, new = self._acceptors
            added = [ScaledAcceptor(old, -1.0), new][:stages]
            if not is_deterministic(lattice):
                lattice, added = rescored_by_fst(lattice, self._old, -1.0), added[1:]
            if self._rnnlm is None or stages < _ALL_STAGES:
                return composed_in_turn(lattice, added)
            rnnlm = RnnlmAcceptor(self._rnnlm, _NGRAM_ORDER)
            return exchanged(lattice, new, rnnlm, _SHARE, _BOUNDS, added=added)


def _check_count(path: Path, count: int, words: SymbolTable, at_most: bool) -> None:
    """Raises ModelFormatError if a model has words behind the last word, or with `at_most` False, lacks words."""
    largest = max(words.names)
    last = max((label for label, name in words.names.items() if not name.startswith(_DISAMBIGUATION)), default=0)
    if at_most and count > largest + 1:
        raise ModelFormatError(
            f"this language model has word {count - 1}, but the last word of the search graph is {largest} "
            f"'{words[largest]}': it is one of other words",
            str(path),
        )
    if not at_most and count <= last:
        raise ModelFormatError(
            f"this language model has words 1 to {count - 1}, but the search graph has word {last} '{words[last]}': it "
            "is one of other words",
            str(path),
        )


def _check_ends(path: Path, bos: int, eos: int, words: SymbolTable) -> None:
    for name, word in (("<s>", bos), ("</s>", eos)):
        if words.labels.get(name, word) != word:
            raise ModelFormatError(
                f"{name} is word {word} in this language model, but word {words.labels[name]} in the list of words of "
                "the search graph: it is a model of other words",
                str(path),
            )
