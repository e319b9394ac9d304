"""Options of all operations: what cannot be is an error of the package, whether Python or a text says it."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3 import cn, components
from nnet3.cn.nodes.columns import RowStack
from nnet3.cn.nodes.component import ComponentOperation
from nnet3.cn.nodes.recurrent import LstmLayer
from nnet3.cn.operation_types import OPERATIONS
from nnet3.errors import ModelFormatError, Nnet3Error

TANH = ComponentOperation(components.create("TanhComponent", "dim=32")).options()["text"]
IMAGES = {"image": (4, 4, 2), "window": (2, 2), "stride": (1, 1), "pad": False}
#: By type: operands as a text has them, and options with which a node can be made.
NODES: dict[str, tuple[list[str], dict[str, object]]] = {
    "input": ([], {"rows": 32, "cols": None, "classes": None, "axis": "a", "sparse": None}),
    "parameter": ([], {"rows": 3, "cols": 2, "trainable": True, "constant": True}),
    "dropout": (["x"], {"rate": 0.5}),
    "power": (["x"], {"exponent": 2.0}),
    "clip": (["x"], {"low": 0.0, "high": 1.0}),
    "reduce_rows": (["x"], {"how": "max"}),
    "row_step": (["x"], {"first": 1, "step": 2, "rows": 3}),
    "layer_norm": (["x"], {"epsilon": 0.1}),
    "reduce_sequence": (["x"], {"how": "mean"}),
    "embedding": (["E", "w"], {"sparse": False}),
    "sparse_times": (["E", "x"], {"sparse": False}),
    "attention": (["x", "x", "x"], {"scale": 0.5}),
    "ctc": (["x", "w"], {"blank": 1}),
    "lstm_layer": (["x", "V", "R", "b"], {"reverse": True}),
    "class_cross_entropy": (["w", "x"], {"smoothing": 0.1}),
    "delay": (["x"], {"rows": 32, "lag": 1, "default": 0.0, "axis": None}),
    "row_slice": (["x"], {"first": 1, "rows": 2}),
    "row_stack": (["x", "x"], {"sizes": (32, 32)}),
    "inv_std_dev": (["x"], {"floor": 0.1}),
    "convolution": (["K", "x"], {**IMAGES, "dilation": (1, 1)}),
    "transposed_convolution": (["L", "x"], {**IMAGES, "dilation": (1, 1), "extra": (0, 0)}),
    "max_pooling": (["x"], IMAGES),
    "average_pooling": (["x"], IMAGES),
    "component": (["x"], {"text": TANH, "trainable": True}),
}
NAN, INFINITE = float("nan"), float("inf")
WRONG_KINDS = {
    "int": (None, 1.5, 1.0, "1", True, (1,), NAN, 2**31, -(2**31), 10**400),
    "float": (None, "0.5", False, (0.5,), NAN, INFINITE, -INFINITE, 2**31, 10**400, 1j),
    "bool": (None, 0, 1, "True", 0.5),
    "str": (None, 1, 0.5, b"text", True, ("a",)),
    "tuple": (None, 2, 2.0, "22", (2,) * 9, (2.0, 2.0, 2.0), (True,) * 3, ("2", "2", "2"), (2**31,) * 3, {2: 2}),
}
#: Of the right kind, but there is no such node.
IMPOSSIBLE = [
    ("input", {"rows": 0}),
    ("input", {"rows": -1}),
    ("input", {"cols": 0}),
    ("input", {"axis": "a b"}),
    ("input", {"cols": 3}),
    ("input", {"cols": 3, "axis": None, "sparse": True}),
    ("clip", {"low": 2.0}),
    ("reduce_rows", {"how": "median"}),
    ("row_step", {"step": 0}),
    ("row_step", {"rows": 0}),
    ("row_step", {"first": 31}),
    ("layer_norm", {"epsilon": 0.0}),
    ("reduce_sequence", {"how": "min"}),
    ("ctc", {"blank": 32}),
    ("ctc", {"blank": -1}),
    ("input", {"classes": 0}),
    ("input", {"classes": 3, "rows": 2}),
    ("class_cross_entropy", {"smoothing": 1.0}),
    ("class_cross_entropy", {"smoothing": -0.1}),
    ("parameter", {"rows": 0}),
    ("parameter", {"cols": -2}),
    ("parameter", {"cols": None}),
    ("parameter", {"rows": 2**20, "cols": 2**20}),
    ("dropout", {"rate": 1.5}),
    ("dropout", {"rate": 1.0}),
    ("dropout", {"rate": -0.1}),
    ("delay", {"lag": 0}),
    ("delay", {"lag": 2**30 + 1}),
    ("delay", {"lag": -(2**30) - 1}),
    ("delay", {"rows": 0}),
    ("row_slice", {"first": -1}),
    ("row_slice", {"rows": 0}),
    ("row_slice", {"first": 31}),
    ("row_stack", {"sizes": (32, 31)}),
    ("row_stack", {"sizes": ()}),
    ("inv_std_dev", {"floor": 0.0}),
    ("inv_std_dev", {"floor": -1.0}),
    ("convolution", {"dilation": (0, 1)}),
    ("convolution", {"dilation": (4, 1)}),
    ("transposed_convolution", {"extra": (1, 0)}),
    ("transposed_convolution", {"extra": (-1, 0)}),
    ("transposed_convolution", {"window": (3, 1)}),
    *[(type, {"window": (0, 0)}) for type in ("convolution", "max_pooling", "average_pooling")],
    *[(type, {"stride": (0, 1)}) for type in ("convolution", "max_pooling", "average_pooling")],
    *[(type, {"stride": (1, -1)}) for type in ("convolution", "max_pooling", "average_pooling")],
    *[(type, {"image": (4, 0, 8)}) for type in ("convolution", "max_pooling", "average_pooling")],
    *[(type, {"image": (-4, -4, 2)}) for type in ("convolution", "max_pooling", "average_pooling")],
    *[(type, {"window": (5, 1)}) for type in ("convolution", "max_pooling", "average_pooling")],
    ("component", {"text": ""}),
    ("component", {"text": "<TanhComponent>"}),
    ("component", {"text": TANH + TANH}),
]


def in_python(type: str, options: dict[str, object]) -> cn.Node:
    operands = {"x": cn.input("x", 32), "w": cn.input("w", classes=32), "K": cn.parameter("K", (3, 8))}
    operands |= {"E": cn.parameter("E", (3, 32)), "L": cn.parameter("L", (2, 8))}
    operands |= {name: cn.parameter(name, (8, cols)) for name, cols in (("V", 32), ("R", 2), ("b", 1))}
    operation = OPERATIONS[type].from_options(**options)
    return cn.Node(operation, [operands[name] for name in NODES[type][0]])


def as_text(type: str, options: dict[str, object]) -> str:
    given = [f"{name}={value!r}" for name, value in options.items()]
    lines = [
        "# computational network 1",
        "x = input(rows=32)",
        "w = input(rows=1, classes=32)",
        "K = parameter(rows=3, cols=8)",
        "E = parameter(rows=3, cols=32)",
        "L = parameter(rows=2, cols=8)",
        *(f"{name} = parameter(rows=8, cols={cols})" for name, cols in (("V", 32), ("R", 2), ("b", 1))),
    ]
    return "\n".join([*lines, f"y = {type}({', '.join([*NODES[type][0], *given])})", "output y = y"])


def wrong_kinds() -> list[tuple[str, dict[str, object]]]:
    found = []
    for type, (_, _) in NODES.items():
        for name, kind in OPERATIONS[type].option_kinds().items():
            wrong = WRONG_KINDS["tuple" if kind.startswith("tuple") else kind.removesuffix(" | None")]
            found += [(type, {name: value}) for value in wrong if value is not None or "None" not in kind]
    return found


def test_all_options_of_all_operations_are_tried() -> None:
    ours = {type: made for type, made in OPERATIONS.items() if made.__module__.startswith("nnet3.")}
    assert {type: set(options) for type, (_, options) in NODES.items()} == {
        type: set(made.option_kinds()) for type, made in ours.items() if made.option_kinds()
    }


@pytest.mark.parametrize("type", NODES)
def test_nodes_that_can_be(type) -> None:
    options = NODES[type][1]
    node = in_python(type, options)
    again = cn.from_text(as_text(type, options)).find("y")
    assert again.shape == node.shape
    assert again.operation.options() == node.operation.options()


@pytest.mark.parametrize(("type", "wrong"), [*wrong_kinds(), *IMPOSSIBLE], ids=str)
def test_nodes_that_cannot_be(type, wrong) -> None:
    options = {**NODES[type][1], **wrong}
    with pytest.raises(Nnet3Error):
        in_python(type, options)
    with pytest.raises(ModelFormatError, match=r"net\.txt: line 10: "):
        cn.from_text(as_text(type, options), "net.txt")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda x: cn.dropout(1.5, x), "dropout: expected a rate of at least 0 and less than 1, got 1.5"),
        (lambda x: cn.dropout("0.5", x), "dropout: rate must be a finite number, got '0.5'"),
        (lambda x: cn.dropout(NAN, x), "dropout: rate must be a finite number, got nan"),
        (lambda x: cn.delay(x, 0), "delay: expected a lag other than 0"),
        (lambda x: cn.delay(x, 1.0), r"delay: lag must be an integer, got 1\.0"),
        (lambda x: cn.delay(x, 1, NAN), "delay: default must be a finite number, got nan"),
        (lambda x: cn.delay(None, dim=2.5), r"delay: rows must be an integer, got 2\.5"),
        (lambda x: cn.delay(None, dim=0), "delay: expected at least one row, got 0"),
        (lambda x: cn.delay(x, dim=3), "delay: dim=3, but the operand has 32 rows"),
        (lambda x: cn.delay(x, initial="h"), "the initial state must be an input, got 'h'"),
        (lambda x: cn.row_slice(x, -1, 2), "row_slice: expected at least one row, from 0 on, got 2 from -1"),
        (lambda x: cn.row_slice(x, 0.0, 2), r"row_slice: first must be an integer, got 0\.0"),
        (lambda x: cn.inv_std_dev(x, floor=0), "inv_std_dev: expected a floor greater than 0, got 0.0"),
        (lambda x: cn.inv_std_dev(x, floor="1"), "inv_std_dev: floor must be a finite number, got '1'"),
        (lambda x: cn.macros.cnn_block(x, (4, 4, 2), 3, name="b", window=3.0), "window must be 2 integers"),
        (lambda x: LstmLayer(reverse=1), "reverse must be True or False, got 1"),
        (lambda x: RowStack(32), "row_stack: sizes must be integers, got 32"),
        (lambda x: cn.input("y", 2, axis=3), "input: axis must be a text or None, got 3"),
        (lambda x: cn.macros.cnn_block(x, (4, 4, 2), 3, name="b", pool=(0, 1)), "expected image"),
        (lambda x: cn.component("ConstantComponent output-dim=3", x), "has no input"),
    ],
)
def test_functions_say_what_they_expect(make, says) -> None:
    with pytest.raises(Nnet3Error, match=says):
        make(cn.input("x", 32))


def test_numbers_of_numpy_are_written_as_plain_ones() -> None:
    x = cn.input("x", np.int64(32))
    sizes = np.array([4, 4, 2])
    nodes = [
        cn.max_pooling(x, image=tuple(sizes), window=sizes[2], stride=(sizes[2], sizes[2])),
        cn.delay(cn.dropout(np.float32(0.5), x), lag=sizes[2], default=np.float64(0.25)),
        cn.inv_std_dev(x, floor=np.float64(0.5)),
        cn.row_slice(x, sizes[2], sizes[0]),
        cn.delay(x, 1, 0),
    ]
    text = cn.to_text(cn.Network(outputs={f"o{number}": node for number, node in enumerate(nodes)}))
    assert "np." not in text
    assert "max_pooling(x, image=(4, 4, 2), window=(2, 2), stride=(2, 2), pad=False)" in text
    assert "rate=0.5" in text
    assert "lag=2, default=0.25" in text
    assert "lag=1, default=0.0" in text
    assert cn.to_text(cn.from_text(text)) == text
