"""A small sequence-to-sequence model with attention learns to reverse strings.

    python reversal.py

The encoder is a bidirectional LSTM over the letters of a word, the decoder an LSTM. For each letter of the answer
dot-product attention looks at all letters of the word. It stands inside the decoder's loop: its query is the state
before, and what it finds is given to the decoder beside the letter before. The answer lies on an axis of its own, whose
sequences may have other lengths than the words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from nnet3 import cn

LETTERS, START = 6, 6  # letters 0 ... 5, and the mark with which an answer begins
CELLS = 24


def network() -> cn.Network:
    word = cn.input("word", classes=LETTERS)
    before = cn.input("before", classes=LETTERS + 1, axis="answer")
    answer = cn.input("answer", classes=LETTERS, axis="answer")
    letters = cn.embedding(cn.parameter("letters", (8, LETTERS)), word, sparse=False)
    states = cn.macros.blstm(letters, CELLS // 2, name="encoder")
    query = cn.delay(None, dim=CELLS, axis="answer", name="query")
    found = cn.attention(query, states, states, name="found")
    given = cn.row_stack(cn.embedding(cn.parameter("marks", (8, LETTERS + 1)), before, sparse=False), found)
    h = query.connect(cn.macros.lstm(given, CELLS, name="decoder").h)
    scores = cn.macros.affine(cn.row_stack(h, found), LETTERS, name="scores")
    J = cn.cross_entropy_with_softmax(answer, scores, name="J")
    errors = cn.classification_error(answer, scores, name="errors")
    return cn.Network(J, {"scores": scores, "errors": errors})


def batch_of(words: Sequence[np.ndarray]) -> dict[str, cn.Sequences]:
    answers = [word[::-1] for word in words]
    before = [np.concatenate([[START], answer[:-1]]) for answer in answers]
    return {"word": cn.sequences(words), "answer": cn.sequences(answers), "before": cn.sequences(before)}


def reversed_word(net: cn.Network, word: np.ndarray) -> list[int]:
    """The likeliest answer, letter by letter."""
    answer = [START]
    for _ in word:
        given = {"word": cn.sequences([word]), "before": cn.sequences([np.array(answer)])}
        answer.append(int(net.evaluate("scores", given)[0][:, -1].argmax()))
    return answer[1:]


def run(steps: int = 900, seed: int = 0) -> float:
    """Returns the part of words of 3 to 6 letters, never seen before, that are reversed without a mistake."""
    rng, net = np.random.default_rng(seed), network()
    optimizer = torch.optim.Adam(list(net.tensors().values()), lr=0.01)

    def words(count: int, length: int) -> list[np.ndarray]:
        return [rng.integers(0, LETTERS, length) for _ in range(count)]

    minibatches = [batch_of(words(32, int(rng.integers(3, 7)))) for _ in range(steps)]
    history = cn.train(net, minibatches, optimizer)
    test = [word for length in range(3, 7) for word in words(10, length)]
    found = float(np.mean([reversed_word(net, word) == word[::-1].tolist() for word in test]))
    print(f"reversal: cross entropy {history[-1]:.3f} a letter in training, {100 * found:.0f} % of new words right")
    return found


if __name__ == "__main__":
    run()
