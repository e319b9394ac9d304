"""A convolutional network on scanned digits: two blocks of convolution, bias, relu, max pooling."""

from __future__ import annotations

import numpy as np
import torch
from digits import accuracy, scanned_digits

from nnet3 import cn


def network() -> cn.Network:
    x, labels = cn.input("x", 64), cn.input("labels", 10)
    maps, image = cn.macros.cnn_block(x, (8, 8, 1), 24, name="block1")
    maps, image = cn.macros.cnn_block(maps, image, 64, name="block2")
    o = cn.macros.affine(cn.dropout(0.3, maps), 10, name="out")
    J = cn.cross_entropy_with_softmax(labels, o, name="J")
    return cn.Network(J, {"posterior": cn.softmax(o), "errors": cn.classification_error(o, labels)})


def run(epochs: tuple[int, int] = (19, 11), path: str | None = None) -> float:
    train, test = scanned_digits()
    net, rng = network(), np.random.default_rng(0)
    optimizer = torch.optim.Adam(list(net.tensors().values()), lr=4e-3)
    cn.train(net, lambda: train.minibatches(rng), optimizer, epochs=epochs[0])
    optimizer.param_groups[0]["lr"] = 1e-3
    cn.train(net, lambda: train.minibatches(rng), optimizer, epochs=epochs[1])
    found = accuracy(net, test)
    print(f"convolutional network: {100 * found:.2f} % of the test images right")
    if path:
        draw_kernels(net, path)
    return found


def draw_kernels(net: cn.Network, path: str) -> None:
    """The kernels of the first block, 3 x 3 each, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    kernels = net.parameters()["block1.K"].reshape(-1, 3, 3)
    figure, axes = pyplot.subplots(3, len(kernels) // 3, figsize=(8, 3.2))
    for axis, kernel in zip(axes.flat, kernels, strict=False):
        axis.imshow(kernel, cmap="RdBu", vmin=-abs(kernels).max(), vmax=abs(kernels).max())
        axis.axis("off")
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


if __name__ == "__main__":
    run(path="kernels.png")
