"""A tensor network on scanned digits: two hidden layers meet in a Khatri-Rao product."""

from __future__ import annotations

import numpy as np
import torch
from digits import accuracy, scanned_digits

from nnet3 import cn


def network() -> cn.Network:
    """The upper and the lower half of an image see each other only in the product."""
    x, labels = cn.input("x", 64), cn.input("labels", 10)
    upper = cn.macros.dnn_layer(cn.row_slice(x, 0, 32), 16, name="upper", activation=cn.tanh)
    lower = cn.macros.dnn_layer(cn.row_slice(x, 32, 32), 16, name="lower", activation=cn.tanh)
    o = cn.macros.affine(cn.khatri_rao_product(upper, lower, name="product"), 10, name="out")
    J = cn.cross_entropy_with_softmax(labels, o, name="J")
    return cn.Network(J, {"errors": cn.classification_error(o, labels)})


def run(epochs: int = 20) -> float:
    train, test = scanned_digits()
    net, rng = network(), np.random.default_rng(0)
    optimizer = torch.optim.Adam(list(net.tensors().values()), lr=3e-3)
    cn.train(net, lambda: train.minibatches(rng), optimizer, epochs=epochs)
    found = accuracy(net, test)
    print(f"tensor network: {100 * found:.2f} % of the test images right")
    return found


if __name__ == "__main__":
    run()
