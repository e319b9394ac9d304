"""Rescores tables of lattices with language models."""

from __future__ import annotations

from collections.abc import Callable

import torch

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_file import load_fst
from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.lattice_file import lattice_writer
from nnet3.base.options.rescoring import ComposeOptions
from nnet3.base.options.rnnlm import RnnlmOptions
from nnet3.cli.files import load_network, open_file
from nnet3.cli.lattice_reading import read_lattices
from nnet3.cli.messages import say
from nnet3.errors import ModelFormatError, Nnet3Error
from nnet3.speech.language_models.backoff_acceptor import BackoffAcceptor, words_of_grammar
from nnet3.speech.language_models.const_arpa_acceptor import ConstArpaAcceptor
from nnet3.speech.language_models.const_arpa_file import read_const_arpa
from nnet3.speech.language_models.language_model import BackoffModel
from nnet3.speech.language_models.rnnlm import Rnnlm
from nnet3.speech.language_models.rnnlm_acceptor import RnnlmAcceptor
from nnet3.speech.language_models.word_acceptor import WordAcceptor
from nnet3.speech.lattices.lattice_composition import WordFst
from nnet3.speech.lattices.rescoring import exchanged, rescored, rescored_by_fst

Acceptors = Callable[[], WordAcceptor]
"""Makes a new acceptor, for one lattice."""


def by_grammar(lattices: str, grammar: str, output: str, lm_scale: float) -> int:
    """Adds the costs of an FST of words. Returns 1, a status, if no lattice was written; so do all others."""
    try:
        fst = WordFst(load_fst(grammar))
    except ModelFormatError as error:
        raise error if error.source else ModelFormatError(error.message, grammar) from None
    return _write(lattices, output, lambda lattice: rescored_by_fst(lattice, fst, lm_scale), copies=not lm_scale)


def by_const_arpa(lattices: str, model: str, output: str, lm_scale: float) -> int:
    """Adds the costs of a const-arpa model."""
    acceptor = _const_arpa(model)
    return _write(lattices, output, lambda lattice: rescored(lattice, acceptor(), lm_scale), copies=not lm_scale)


def by_rnnlm(
    embedding: str,
    network: str,
    lattices: str,
    output: str,
    lm_scale: float,
    max_ngram_order: int,
    options: RnnlmOptions,
) -> int:
    """Adds the costs of an RNNLM."""
    acceptor = _rnnlm(embedding, network, max_ngram_order, options)
    return _write(lattices, output, lambda lattice: rescored(lattice, acceptor(), lm_scale), copies=not lm_scale)


def by_rnnlm_pruned(
    old: str,
    embedding: str,
    network: str,
    lattices: str,
    output: str,
    lm_scale: float,
    acoustic_scale: float,
    max_ngram_order: int,
    use_const_arpa: bool,
    limits: ComposeOptions,
    options: RnnlmOptions,
) -> int:
    """Exchanges the costs of an FST or a const-arpa model for those of an RNNLM, on good paths."""
    taken = _const_arpa(old) if use_const_arpa else _grammar(old)
    added = _rnnlm(embedding, network, max_ngram_order, options)
    return _write_exchanged(lattices, output, taken, added, lm_scale, acoustic_scale, limits)


def by_model_pruned(
    old: str,
    new: str,
    lattices: str,
    output: str,
    lm_scale: float,
    acoustic_scale: float,
    add_const_arpa: bool,
    limits: ComposeOptions,
) -> int:
    """Exchanges the costs of an FST for those of another FST or a const-arpa model, on good paths."""
    added = _const_arpa(new) if add_const_arpa else _grammar(new)
    return _write_exchanged(lattices, output, _grammar(old), added, lm_scale, acoustic_scale, limits)


def _write_exchanged(
    lattices: str,
    output: str,
    old: Acceptors,
    new: Acceptors,
    lm_scale: float,
    acoustic_scale: float,
    limits: ComposeOptions,
) -> int:
    """Writes lattices with the costs of `new` in the place of the costs of `old`. Returns the exit status."""
    return _write(lattices, output, lambda lattice: exchanged(lattice, old(), new(), lm_scale, limits, acoustic_scale))


def _const_arpa(name: str) -> Acceptors:
    model = read_const_arpa(open_file(name))
    return lambda: ConstArpaAcceptor(model)


def _grammar(name: str) -> Acceptors:
    model = _back_off(load_fst(name), name)
    return lambda: BackoffAcceptor(model)


def _back_off(fst: Fst, name: str) -> BackoffModel:
    try:
        return BackoffModel(words_of_grammar(fst))
    except ModelFormatError as error:
        raise ModelFormatError(error.message, name) from None


def _rnnlm(embedding: str, network: str, max_ngram_order: int, options: RnnlmOptions) -> Acceptors:
    matrix = torch.from_numpy(open_file(embedding).matrix())
    rnnlm = Rnnlm(load_network(network), matrix, options)
    return lambda: RnnlmAcceptor(rnnlm, max_ngram_order)


def _write(lattices: str, output: str, rescore: Callable[[Lattice], Lattice], copies: bool = False) -> int:
    """Writes rescored lattices. Leaves out, with a warning, empty lattices and lattices that a model cannot rescore;
    `copies`: lattices are only copied, and empty ones kept."""
    failed = 0
    with lattice_writer(output) as writer:
        for key, lattice in read_lattices(lattices):
            try:
                found = rescore(lattice)
                reason = "no path is left: is the model one of other words?"
            except Nnet3Error as error:
                found, reason = None, str(error)
            if found is None or not (found.fst.num_states or copies):
                say(f"warning: lattice '{key}' left out: {reason}")
                failed += 1
                continue
            writer.write(key, found)
        say(f"{writer.count} lattices rescored, {failed} left out")
        return int(not writer.count)
