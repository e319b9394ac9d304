"""An LSTM, or a bidirectional one, on spoken digits: sequences of different lengths batched together.

    python spoken_digits.py recordings.zip [--bidirectional]

`recordings.zip` is that of the Free Spoken Digit Dataset. There is one label for each recording: the mean of all states
of the LSTM decides. Recordings 0 to 4 of each speaker and digit are the test set.
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
FRAMES = 600  # of a minibatch


def network(bidirectional: bool, cells: int = 48) -> cn.Network:
    x, digit = cn.input("x", 13), cn.input("digit", classes=10, axis="sequence")
    h = cn.macros.blstm(x, cells) if bidirectional else cn.macros.lstm(x, cells).h
    o = cn.macros.affine(cn.sequence.mean(h), 10, name="out")
    J = cn.cross_entropy_with_softmax(digit, o, name="J")
    return cn.Network(J, {"errors": cn.classification_error(digit, o)})


def frames(utterance: Recording) -> np.ndarray:
    """(13, frames), `FRAMES_AT_ONCE` averaged and at most `MOST_FRAMES` of those."""
    whole = len(utterance.features) // FRAMES_AT_ONCE * FRAMES_AT_ONCE
    averaged = utterance.features[:whole].reshape(-1, FRAMES_AT_ONCE, 13).mean(1)
    return averaged[:MOST_FRAMES].T


def minibatches(utterances: Sequence[Recording]) -> cn.Minibatches:
    """Minibatches of utterances of similar lengths, so that few shapes have to be compiled."""
    usable = [u for u in utterances if len(u.features) >= FRAMES_AT_ONCE]
    data = {"x": [frames(u) for u in usable], "digit": np.array([u.digit for u in usable])}
    return cn.Minibatches(data, FRAMES, similar=True)


def accuracy(net: cn.Network, test: cn.Minibatches) -> float:
    errors = sum(float(net.evaluate("errors", batch)) for batch in test())
    return 1 - errors / len(test.lengths)


def run(archive: str, bidirectional: bool = False, speakers: Sequence[str] = (), epochs: int = 8) -> float:
    utterances = [u for u in read_utterances(archive) if not speakers or u.speaker in speakers]
    test = minibatches([u for u in utterances if u.recording < 5])
    train = minibatches([u for u in utterances if u.recording >= 5])
    net = network(bidirectional)
    optimizer = torch.optim.Adam(list(net.tensors().values()), lr=5e-3)
    history = cn.train(net, train, optimizer, epochs=epochs)
    found = accuracy(net, test)
    name = "bidirectional LSTM" if bidirectional else "LSTM"
    print(f"{name}: cross entropy {history[0]:.3f} -> {history[-1]:.3f} a recording, {100 * found:.2f} % of test right")
    return found


if __name__ == "__main__":
    run(sys.argv[1], "--bidirectional" in sys.argv[2:])
