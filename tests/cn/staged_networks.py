"""Small networks in stages: a classifier of sentences, and a decoder that attends to words."""

from __future__ import annotations

from typing import Any

import torch

from nnet3 import cn
from tests.seeds import RANDOM

WORDS = 50


def classifier(dtype: torch.dtype = torch.float64, carry: bool = False) -> cn.Network:
    """Words, an LSTM over them, a label for each sentence, and a regularization of the table's neighbour."""
    words, label = cn.input("words", classes=WORDS), cn.input("label", classes=3, axis="sequence")
    h = cn.macros.lstm(cn.embedding(cn.parameter("E", (4, WORDS)), words, name="e"), 5, carry=carry).h
    W = cn.parameter("W", (3, 5))
    scores = cn.plus(W @ cn.sequence.last(h, name="last"), cn.parameter("b", (3, 1)), name="scores")
    J = cn.cross_entropy_with_softmax(label, scores, name="J")
    return cn.Network({J: 1.0, cn.squared_norm(cn.tanh(W), name="K"): 0.1}, {"scores": scores}, dtype=dtype)


def sentences(*lengths: int) -> dict[str, Any]:
    words = cn.sequences([RANDOM.integers(0, WORDS, size=length) for length in lengths])
    return {"words": words, "label": RANDOM.integers(0, 3, size=len(lengths))}


def decoder(dtype: torch.dtype = torch.float64, lag: int = 1, additive: bool = False) -> cn.Network:
    """A state whose next value depends on what attention finds for it among the words."""
    word, before, y = cn.input("word", 3), cn.input("before", 2, axis="answer"), cn.input("y", 4, axis="answer")
    keys = cn.tanh(cn.parameter("K", (4, 3)) @ word, name="keys")
    values = cn.tanh(cn.parameter("V", (5, 3)) @ word, name="values")
    d = cn.delay(None, lag, dim=4, axis="answer", name="d")
    if additive:
        found = cn.additive_attention(d, keys, values, cn.parameter("w", (4, 1)), name="found")
    else:
        found = cn.attention(d, keys, values, name="found")
    plain = cn.parameter("A", (4, 2)) @ before + cn.parameter("R", (4, 4)) @ d
    h = d.connect(cn.tanh(plain + cn.parameter("C", (4, 5)) @ found, name="h"))
    return cn.Network(cn.square_error(h, y, name="J"), {"h": h, "found": found}, dtype=dtype)


def batch_of(words: tuple[int, ...], answers: tuple[int, ...]) -> dict[str, Any]:
    rows = {"word": (3, words), "before": (2, answers), "y": (4, answers)}
    return {name: cn.sequences([RANDOM.normal(size=(n, each)) for each in ls]) for name, (n, ls) in rows.items()}
