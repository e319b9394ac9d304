"""Algorithm 1.1 on scanned digits: one hidden layer of sigmoids, trained by (1.1) and (1.2).

    python one_hidden_layer.py [FOLDER]

In a folder it leaves curves, a log and checkpoints; the same command goes on with a run that was cut short.
"""

from __future__ import annotations

import sys

import numpy as np
from digits import accuracy, scanned_digits

from nnet3 import cn


def network(hidden: int = 64) -> cn.Network:
    x, labels = cn.input("x", 64), cn.input("labels", 10)
    W1, B1 = cn.parameter("W1", (hidden, 64)), cn.parameter("B1", (hidden, 1))
    W2, B2 = cn.parameter("W2", (10, hidden)), cn.parameter("B2", (10, 1))
    T1 = cn.times(W1, x, name="T1")
    P1 = cn.plus(T1, B1, name="P1")
    S1 = cn.sigmoid(P1, name="S1")
    T2 = cn.times(W2, S1, name="T2")
    P2 = cn.plus(T2, B2, name="P2")
    J = cn.cross_entropy_with_softmax(labels, P2, name="J")
    return cn.Network(J, {"O": cn.softmax(P2, name="O"), "errors": cn.classification_error(P2, labels)})


def run(epochs: int = 30, folder: str | None = None) -> float:
    train, test = scanned_digits()
    net, rng = network(), np.random.default_rng(0)
    history = cn.train(
        net,
        list(train.minibatches(rng)),
        learning_rate=(1.0, 0.1),
        momentum=0.5,
        epochs=epochs,
        metrics=["errors"],
        validation=[test.batch()],
        folder=folder,
        resume=folder is not None,
        print_every=18,
    )
    found = accuracy(net, test)
    print(f"one hidden layer: cross entropy {history[0]:.3f} -> {history[-1]:.3f}, {100 * found:.2f} % of test right")
    return found


if __name__ == "__main__":
    run(folder=sys.argv[1] if len(sys.argv) > 1 else None)
