"""A small recognizer with a graph of two words, and audio in which it hears them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import nnet3
from nnet3.base.kaldi_io.fst_file import save_fst
from nnet3.kaldi_io import Fst
from tests.asr.small_model import FEATURES, write_folder
from tests.kaldi_io.graph_bytes import lookahead_bytes, ngram_bytes
from tests.seeds import RANDOM

RATE = 8000
PIECE = RATE // 5
WORDS = "<eps> 0\nhigh 1\nlow 2\n"


def write_recognizer(folder: Path, *, lookahead: bool = False, with_ivector: bool = True) -> Path:
    """Writes a model directory: phone 1 is silence; 2 and 3 are words, which tones of 1800 and 300 Hz sound like."""
    write_folder(folder, RANDOM, with_ivector=with_ivector)
    with open(folder / "conf/model.conf", "a") as conf:
        conf.write("--lattice-beam=2\n")
    model = nnet3.load(folder / "am/final.mdl")
    assert isinstance(model, nnet3.AcousticModel)
    _teach(model.nnet)
    model.save(folder / "am/final.mdl")
    graph = folder / "graph"
    (graph / "words.txt").write_text(WORDS)
    (graph / "phones/word_boundary.int").write_text("1 nonword\n2 singleton\n3 singleton\n")
    if not lookahead:
        save_fst(_word_loop(), str(graph / "HCLG.fst"))
        return folder
    (graph / "HCLG.fst").unlink()
    loop = _word_loop()
    (graph / "HCLr.fst").write_bytes(lookahead_bytes(loop, [[(1, 4)]] * loop.num_states, 3))
    (graph / "Gr.fst").write_bytes(ngram_bytes({(): {1: 0.7, 2: 0.9}, (0,): {1: 0.5}}, {(): 1.0}, {(0,): 0.2}))
    (graph / "disambig_tid.int").write_text("7\n")
    return folder


def _teach(nnet: nnet3.Nnet) -> None:
    """Lets hidden unit p - 1 be positive for phone p, by cepstra 1 and 3; the others are random, with little weight."""
    (hidden, offset), (last, last_offset) = (nnet.components[name].parameters().values() for name in ("affine", "last"))
    last *= 0.01
    last_offset *= 0
    hidden[:3], offset[:3] = 0, torch.tensor([2.0, -15.0, 5.0])
    for unit, (cepstrum, sign) in enumerate(((3, -1), (3, 1), (1, 1))):
        hidden[unit, FEATURES + cepstrum] = sign
        last[2 * unit : 2 * unit + 2, [unit, 8 + unit]] = 2.0


def _word_loop() -> Fst:
    """Any words, with silence between them."""
    arcs = []
    for word, phone in enumerate((1, 2, 3)):
        arcs += [(0, phone, 2 * phone, word, 0.5), (phone, phone, 2 * phone - 1, 0, 0.1), (phone, 0, 0, 0, 0.1)]
    src, dst, ilabel, olabel, cost = zip(*arcs, strict=True)
    return Fst.from_arcs(0, np.array([0, np.inf, np.inf, np.inf]), src, dst, ilabel, cost, olabel)


def audio(seconds: float) -> np.ndarray:
    """Tones that change, with noise and pauses: int16."""
    time = np.arange(round(seconds * RATE)) / RATE
    loudness = 4000 * (np.sin(2 * np.pi * time * 0.7) > -0.3)
    pitch = np.cumsum(300 + 1500 * (np.sin(2 * np.pi * time * 1.7) > 0)) / RATE
    sound = loudness * np.sin(2 * np.pi * pitch) + 200 * RANDOM.normal(size=len(time))
    return sound.astype("<i2")
