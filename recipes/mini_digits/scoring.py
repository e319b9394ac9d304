"""Word errors of lattices, for each weight of the language model and each penalty of words (Kaldi: score_kaldi.sh)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from nnet3.base.kaldi_io.lattice import open_lattice_table
from nnet3.base.kaldi_io.symbols import SymbolTable, load_symbols
from nnet3.speech.asr.word_errors import WordErrors, word_errors
from nnet3.speech.lattices.lattice_path import best_paths

Choice = tuple[int, float]  # weight of the language model, penalty of words
Texts = dict[str, list[str]]


def read_texts(path: Path) -> Texts:
    """Transcripts by key."""
    return {key: words for key, *words in (line.split() for line in path.read_text().splitlines())}


def heard(lattices: Iterable[Path], symbols: SymbolTable, choice: Choice) -> Texts:
    """The words of the best path of each lattice. Acoustic costs, times ten in the files, count 1/weight."""
    weight, penalty = choice
    return {
        key: [symbols[label] for label in best_paths(lattice, 1, 1.0, 1 / weight, penalty)[0].words.tolist()]
        for path in lattices
        for key, lattice in open_lattice_table(f"ark:{path}")
    }


def errors(said: Texts, found: Texts) -> WordErrors:
    """All word errors; a string without a lattice counts as one in which nothing was heard."""
    return sum((word_errors(words, found.get(key, [])) for key, words in said.items()), WordErrors())


def score(lattices: list[Path], words: Path, text: Path, choices: Iterable[Choice], folder: Path) -> Choice:
    """Writes the word error rate of each choice to `rates.json` and what the best one hears to `heard.txt`."""
    symbols, said = load_symbols(words), read_texts(text)
    rates = {choice: errors(said, heard(lattices, symbols, choice)).rate for choice in choices}
    best = min(rates, key=lambda choice: (rates[choice], *choice))
    (folder / "rates.json").write_text(json.dumps([[*choice, rate] for choice, rate in rates.items()]))
    texts = heard(lattices, symbols, best)
    (folder / "heard.txt").write_text("".join(f"{key} {' '.join(texts[key])}\n" for key in sorted(texts)))
    return best
