"""The corpus: small networks that together make every pass, every family and every kind of plan do something."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import cycle, permutations
from random import Random

import numpy as np

import nnet3
from nnet3 import cn
from nnet3.options import HIGHEST_LEVEL, CompileOptions
from tests.cn.random_graphs import random_graph
from tests.cn.random_loops import random_loop
from tests.driver.ragged_requests import ragged_request
from tests.families.minibatches import recurrence
from tests.families.networks import BLSTM, POOLING, TDNN, request_for
from tests.random_networks import RandomNetwork, computable_request, random_network
from tests.spliced_recurrences import affine_loop, lstm_stack
from tools.plant.cases import Case, GraphCase, NnetCase
from tools.plant.program_cases import OptimizedPrograms, PlannedPrograms

_SAVING = CompileOptions(level=HIGHEST_LEVEL)
_TO = "recurrent-projection-dim=1 non-recurrent-projection-dim=1"
#: Layers above an input of so many columns, and below an output.
_LAYERS = {
    "lstm": (2, "lstm-layer name=l cell-dim=2 delay=-1"),
    "lstmp, dropout": (2, f"lstmp-layer name=l cell-dim=3 {_TO} dropout-proportion=0.2 delay=-2"),
    "gru": (2, "gru-layer name=l cell-dim=2"),
    "opgru": (2, f"opgru-layer name=l cell-dim=3 {_TO} delay=2"),
    "fast-norm-opgru": (2, f"fast-norm-opgru-layer name=l cell-dim=2 {_TO} delay=-1"),
    "tdnnf": (8, "tdnnf-layer name=a dim=8 bottleneck-dim=3 time-stride=1\n"
              "tdnnf-layer name=b dim=8 bottleneck-dim=3 time-stride=0 dropout-proportion=0.1"),
    "rectifiers": (3, "relu-batchnorm-layer name=a dim=33 input=Append(-1,0,1)\n"
                   "relu-batchnorm-dropout-layer name=b dim=32 dropout-per-dim=true\nrelu-renorm-layer name=c dim=2"),
    "convolution": (6, "conv-relu-batchnorm-layer name=a height-in=3 height-out=3 num-filters-out=2 "
                    "height-offsets=-1,0,1 time-offsets=-1,0,1 required-time-offsets=0\n"
                    "conv-layer name=b height-in=3 height-out=3 num-filters-out=1 height-offsets=0 time-offsets=0"),
    "attention": (4, "attention-renorm-layer name=a num-heads=1 key-dim=1 value-dim=2 num-left-inputs=1 "
                  "num-right-inputs=1 num-left-inputs-required=0 num-right-inputs-required=0 time-stride=1"),
    "pooling": (2, "stats-layer name=s config=mean+stddev(-2:1:2:2)\ntanh-layer name=a dim=2"),
    "sums": (2, "affine-component name=a dim=2\naffine-component name=b dim=2 input=a\n"
             "tanh-layer name=c dim=2 input=Append(Scale(0.5, Sum(a, Offset(b, 1))), Offset(b, -1))\n"
             "no-op-component name=d input=Sum(a, c)"),
}  # fmt: skip
_ORDERS = [*permutations((-1, 0, 1))]


def corpus() -> list[Case]:
    """Returns the cases, always the same ones."""
    cases = [*_loops(), *_layers(), *_random(), *_families(), *_graphs(), *_loops_of_graphs(), *_others_of_graphs()]
    return [*cases, OptimizedPrograms(range(25)), PlannedPrograms(60)]


def _loops() -> Iterator[Case]:
    """Recurrences over several offsets, in every order, in both directions, of inputs and of layers."""
    ways = cycle([("input", "Append", False), ("layer", "Append", True), ("layer", "Sum", False)])
    for lag in (-1, 2):
        for offsets, (over, joined, first) in zip(_ORDERS, ways, strict=False):
            made = affine_loop(offsets, lag, over=over, joined=joined, first=first)
            options = _SAVING if joined == "Sum" else CompileOptions()
            yield NnetCase(f"loop of lag {lag} over {over} at {offsets}", made.nnet(), [made.request], options)
    for layer, delay, offsets in (
        ("fast-lstmp", 3, (-3, 0, 3)),
        ("lstmb", -1, (-1, 0)),
        ("fast-lstm-batchnorm", 2, (2, 0)),
    ):
        made = lstm_stack(f"{layer}-layer", delay, offsets)
        yield NnetCase(layer, made.nnet(), [made.request])


def _layers() -> Iterator[Case]:
    """Forward alone, and then a step of training, of every kind of layers."""
    for name, (dim, layers) in _LAYERS.items():
        nnet = nnet3.Nnet.from_xconfig(
            f"input dim={dim} name=input\n{layers}\noutput-layer name=output dim=2 param-stddev=1.0", seed=1
        )
        requests = [request_for(nnet, 4, 2, margin=5, train=train, by_time=train) for train in (False, True)]
        yield NnetCase(name, nnet, requests, _SAVING)


def _random() -> Iterator[Case]:
    """Other descriptors, several x, rows in any order, given inner nodes, DistributeComponent."""
    for seed in (4, 7, 11, 53):
        yield from _of_random(random_network(seed))
    for seed in (1, 2):
        yield from _of_random(random_network(seed, layers=["distribute"]))


def _of_random(made: RandomNetwork) -> Iterator[Case]:
    nnet = made.nnet()
    request = computable_request(nnet, made.request)
    if request is not None:
        yield NnetCase(f"random network {made.seed}", nnet, [request])


def _families() -> Iterator[Case]:
    """Lengths that are continued, and several lengths at once, of loops, and of layers without."""
    blstm, tdnn, pooling = (nnet3.Nnet.from_config(config, seed=1) for config in (BLSTM, TDNN, POOLING))
    longer = [request_for(blstm, frames, 2, margin=6, train=True) for frames in (18, 15)]
    ragged = [ragged_request(blstm, lengths, margin=6, train=True) for lengths in ((17, 12, 5), (17, 11, 2))]
    yield NnetCase("several lengths", blstm, [*longer, *ragged])
    yield NnetCase("forward, several lengths", blstm, [
        *(request_for(blstm, frames, 1, margin=6) for frames in (18, 40, 52, 46, 64)),
        *(ragged_request(blstm, lengths, margin=6) for lengths in ((40, 21), (40, 39))),
    ])  # fmt: skip
    yield NnetCase("feedforward, several lengths", tdnn, [
        *(request_for(tdnn, frames, 3, margin=4, train=True) for frames in (9, 20, 31, 26, 42)),
        *(ragged_request(tdnn, lengths, margin=4, train=True) for lengths in ((9, 4), (20, 3, 7), (20, 9, 1))),
    ])  # fmt: skip
    yield NnetCase("pooling, several lengths", pooling, [
        *(request_for(pooling, frames, 1, margin=25) for frames in (10, 25, 40, 55, 70)),
        ragged_request(pooling, (25, 10), margin=25),
    ])  # fmt: skip


def _batch(lengths: tuple[int, ...], **rows: int) -> dict[str, cn.Sequences]:
    rng = np.random.default_rng(len(lengths))
    return {
        name: cn.sequences([rng.normal(size=(count, frames)) for frames in lengths]) for name, count in rows.items()
    }


def _graphs() -> Iterator[Case]:
    """Random computational networks."""
    for seed in (7, 11, 19):
        criterion, last, inputs = random_graph(Random(seed))
        yield GraphCase(
            f"computational network {seed}", partial(lambda *made: made, criterion, {"last": last}), [inputs]
        )


def _loops_of_graphs() -> Iterator[Case]:
    """Loops in both directions, with delays in stacks, on ever other lengths."""
    short, long = ((4, 3, 1), (4, 2, 2), (3,)), ((17, 3, 2), (17, 2, 1), (18, 9, 4))
    for kind, lag, sets in (("plain", 1, long), ("late", -2, short), ("late", 1, short), ("carried", 1, short[:2])):
        criterion, outputs = recurrence(lag, kind)
        states = {name: abs(lag) for name in ("lstm.h0", "lstm.c0")}
        batches = [
            {
                **_batch(lengths, x=3, labels=2),
                **_batch((states["lstm.h0"],) * len(lengths), **dict.fromkeys(states, 3)),
            }
            for lengths in sets
        ]
        yield GraphCase(
            f"LSTM, {kind}, lag {lag}", partial(lambda *made: made, criterion, {"out": outputs[0]}), batches
        )
    for seed, lag in ((1, -1), (4, 2), (5, -3), (8, -2)):
        criterion, nodes = random_loop(Random(seed), lag)
        batches = [_batch(lengths, x=2, u=1) for lengths in ((5, 3), (4, 4, 1), (7, 6, 2))]
        yield GraphCase(
            f"random loop {seed}, lag {lag}", partial(lambda *made: made, criterion, {"last": nodes[-1]}), batches
        )


def _others_of_graphs() -> Iterator[Case]:
    """Images, sums of products, dropout, and networks of the other kind that became graphs."""
    x, y = cn.input("x", 6), cn.input("y", 1)
    image = cn.relu(cn.convolution(cn.parameter("K", (2, 2), np.eye(2)), x, image=(3, 2, 1), window=(2, 1)))
    pooled = cn.max_pooling(image, image=(2, 2, 2), window=(2, 1))
    products = cn.parameter("V", (2, 4)) @ pooled + cn.parameter("W", (2, 6)) @ cn.dropout(0.3, x)
    squares = cn.square_error(cn.tanh(products + cn.element_times(products, cn.sigmoid(y))), cn.row_stack(y, y))
    batch = {name: np.random.default_rng(1).normal(size=(rows, 4)) for name, rows in (("x", 6), ("y", 1))}
    yield GraphCase("image", partial(lambda *made: made, squares, {"pooled": pooled}), [batch])
    for name, xconfig in (
        (
            "tdnn",
            "input dim=2 name=input\nrelu-batchnorm-layer name=a dim=2 input=Append(-1,0,1)\n"
            "output-layer name=output dim=2",
        ),
        ("lstm", "input dim=2 name=input\nfast-lstm-layer name=a cell-dim=2 delay=-1\noutput-layer name=output dim=2"),
    ):
        bridged = cn.from_nnet(nnet3.Nnet.from_xconfig(xconfig, seed=1))
        yield GraphCase(
            f"bridge, {name}", partial(lambda *made: made, None, dict(bridged.outputs)), [_batch((7, 5, 2), input=2)]
        )
