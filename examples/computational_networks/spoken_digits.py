"""An LSTM, or a bidirectional one, on spoken digits: sequences of different lengths batched together.

    python spoken_digits.py recordings.zip [--bidirectional]

`recordings.zip` is that of the Free Spoken Digit Dataset. Each frame is asked for the digit; an utterance is decided by
the sum of its frames' log-probabilities. Recordings 0 to 4 of each speaker and digit are the test set.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import torch

from nnet3 import cn
from nnet3.cli.demo.speech import Recording, read_utterances

FRAMES_AT_ONCE = 3  # their mean is one frame of the network
MOST_FRAMES = 20
BATCH = 50


def network(bidirectional: bool, cells: int = 48) -> cn.Network:
    x, labels = cn.input("x", 13), cn.input("labels", 10)
    h = cn.macros.blstm(x, cells) if bidirectional else cn.macros.lstm(x, cells).h
    o = cn.macros.affine(h, 10, name="out")
    J = cn.cross_entropy_with_softmax(labels, o, name="J")
    return cn.Network(J, {"scores": cn.log_softmax(o)})


def frames(utterance: Recording) -> np.ndarray:
    """(13, frames), `FRAMES_AT_ONCE` averaged and at most `MOST_FRAMES` of those."""
    whole = len(utterance.features) // FRAMES_AT_ONCE * FRAMES_AT_ONCE
    averaged = utterance.features[:whole].reshape(-1, FRAMES_AT_ONCE, 13).mean(1)
    return averaged[:MOST_FRAMES].T


def batches(utterances: Sequence[Recording]) -> list[dict[str, cn.Sequences]]:
    """Minibatches of utterances of similar lengths, so that few shapes have to be compiled."""
    made = []
    usable = sorted((u for u in utterances if len(u.features) >= FRAMES_AT_ONCE), key=lambda u: frames(u).shape[1])
    for start in range(0, len(usable), BATCH):
        chosen = usable[start : start + BATCH]
        values = [frames(u) for u in chosen]
        labels = [np.tile(np.eye(10)[:, [u.digit]], value.shape[1]) for u, value in zip(chosen, values, strict=True)]
        made.append({"x": cn.sequences(values), "labels": cn.sequences(labels)})
    return made


def accuracy(net: cn.Network, made: Sequence[dict[str, cn.Sequences]]) -> float:
    right = total = 0
    for batch in made:
        for scores, labels in zip(net.evaluate("scores", batch), batch["labels"], strict=True):
            right += int(scores.sum(1).argmax() == labels[:, 0].argmax())
            total += 1
    return right / total


def run(archive: str, bidirectional: bool = False, speakers: Sequence[str] = (), epochs: int = 8) -> float:
    utterances = [u for u in read_utterances(archive) if not speakers or u.speaker in speakers]
    test = batches([u for u in utterances if u.recording < 5])
    train = batches([u for u in utterances if u.recording >= 5])
    net, rng = network(bidirectional), np.random.default_rng(0)
    optimizer = torch.optim.Adam(list(net.tensors().values()), lr=5e-3)

    def minibatches() -> list[dict[str, cn.Sequences]]:
        return [train[i] for i in rng.permutation(len(train))]

    history = cn.train(net, minibatches, optimizer, epochs=epochs)
    found = accuracy(net, test)
    name = "bidirectional LSTM" if bidirectional else "LSTM"
    print(f"{name}: cross entropy {history[0]:.3f} -> {history[-1]:.3f} a frame, {100 * found:.2f} % of test right")
    return found


if __name__ == "__main__":
    run(sys.argv[1], "--bidirectional" in sys.argv[2:])
