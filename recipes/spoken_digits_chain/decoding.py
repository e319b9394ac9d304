"""Words from a network's output: a graph of digit strings down to pdfs, and the best path through it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import nnet3
from nnet3.base.kaldi_io.fst_file import save_fst
from nnet3.errors import Nnet3Error
from nnet3.kaldi_io import Fst
from nnet3.training.chain.graphs.openfst import OpenFst
from recipes.spoken_digits.features import padded, read_features
from recipes.spoken_digits_chain.examples import FACTOR
from recipes.spoken_digits_chain.phones import NUM_PHONES, phones_of

try:
    import kaldi_decoder
    import kaldifst
except ImportError:
    kaldi_decoder = kaldifst = None

_BEAM = 20.0


def grammar_and_lexicon() -> Fst:
    """L and G in one: phones in, digits + 1 out, any number of digits, each as probable as an end of the string."""
    arcs, states = [], 1
    for digit in range(10):
        phones = phones_of([digit])
        path = [0, *range(states, states + len(phones) - 1), 0]
        states += len(phones) - 1
        for number, phone in enumerate(phones):
            first = number == 0
            arcs.append(
                (path[number], path[number + 1], phone, digit + 1 if first else 0, np.log(11) if first else 0.0)
            )
    src, dst, ilabel, olabel, cost = (np.array(column) for column in zip(*arcs, strict=True))
    final = np.full(states, np.inf)
    final[0] = np.log(11)
    return Fst.from_arcs(0, final, src, dst, ilabel, cost, olabel=olabel)


def hmms_of_phones() -> Fst:
    """H: pdf + 1 in, phones out. A phone is a frame of its first pdf, then any number of frames of its second."""
    phone = np.arange(1, NUM_PHONES + 1)  # which is also its state
    none, costs = np.zeros_like(phone), np.log(2)
    return Fst.from_arcs(
        0,
        np.append(0.0, np.full(NUM_PHONES, np.inf)),
        np.concatenate([none, phone, phone]),
        np.concatenate([phone, phone, none]),
        np.concatenate([2 * phone - 1, 2 * phone, none]),
        np.concatenate([0.0 * phone, 0.0 * phone + costs, 0.0 * phone + costs]),
        olabel=np.concatenate([phone, none, none]),
    )


def write_decoding_graph(path: Path) -> None:
    """HCLG, or HLG since phones have no context here: pdf + 1 in, digits + 1 out."""
    graph = OpenFst.of(hmms_of_phones()).composed(OpenFst.of(grammar_and_lexicon()))
    save_fst(graph.without_epsilons().fst(), str(path))


def decode(model: nnet3.AcousticModel, table: Path, graph: Path) -> dict[str, list[int]]:
    """What is heard in each string. Raises Nnet3Error without kaldi-decoder, or if a string has no path."""
    if kaldi_decoder is None:
        raise Nnet3Error("decoding needs kaldifst and kaldi-decoder: pip install 'nnet3[chain]' kaldi-decoder")
    fst = kaldifst.StdVectorFst.read(str(graph))
    strings = sorted(read_features(table), key=lambda pair: len(pair[1]))  # equal lengths meet
    heard = {}
    for key, rows in strings:
        # no more padding than that: frames that are repeated for long are heard as one more digit
        scores = model.compute(padded(rows, FACTOR), frame_subsampling_factor=FACTOR)
        found = best_path(fst, scores.numpy())
        if found is None:
            raise Nnet3Error(f"{key}: there is no path through {graph}")
        heard[key] = found
    return heard


def best_path(fst: Any, scores: np.ndarray) -> list[int] | None:
    """The digits along the best path for scores of pdfs (frames, pdfs); None if none ends."""
    decoder = kaldi_decoder.FasterDecoder(fst, kaldi_decoder.FasterDecoderOptions(beam=_BEAM))
    decoder.decode(kaldi_decoder.DecodableCtc(np.ascontiguousarray(scores, np.float32)))  # labels are columns + 1
    if not decoder.reached_final():
        return None
    _, path = decoder.get_best_path()
    _, _, words, _ = kaldifst.get_linear_symbol_sequence(path)
    return [word - 1 for word in words]
