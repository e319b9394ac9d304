"""Computational networks as nnet3 networks, and back."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import nnet3
from nnet3 import cn
from nnet3.errors import NetworkError
from tests.cn.random_graphs import Maker
from tests.cn.reference import columns
from tests.effort import draws
from tests.seeds import RANDOM


def run(nnet: nnet3.Nnet, x: np.ndarray) -> np.ndarray:
    """The output for one sequence (D, T), all frames."""
    indexes = np.array([(0, t, 0) for t in range(x.shape[1])])
    request = nnet3.ComputationRequest(
        inputs=[nnet3.IoSpecification("x", indexes)], outputs=[nnet3.IoSpecification("output", indexes)]
    )
    computer = nnet3.NnetComputer(nnet3.compile(nnet, request), nnet)
    computer.accept_input("x", x.T)
    computer.run()
    return computer.get_output("output").numpy().T


def random_values(net: cn.Network) -> cn.Network:
    net.set_parameters({n: RANDOM.normal(size=v.shape) for n, v in net.parameters().items() if v.size > 1})
    return net


def networks() -> dict[str, cn.Network]:
    x = cn.input("x", 3)
    dnn = cn.log_softmax(cn.macros.dnn(x, [5, 4], 2, activation=cn.relu))
    d = cn.delay(None, dim=4, name="d")
    h = d.connect(cn.tanh(cn.plus(cn.parameter("W", (4, 3)) @ x, cn.parameter("R", (4, 4)) @ d), name="h"))
    spliced = cn.row_stack(cn.delay(x, 2), x, cn.delay(cn.row_slice(cn.row_stack(cn.delay(x, 1), x), 0, 3), -1))
    sliced = cn.row_slice(cn.parameter("W2", (4, 9)) @ spliced, 1, 3)[1:][:2] + cn.scale(0.5, cn.row_slice(x, 0, 2))
    return {
        "dnn": cn.Network(outputs={"output": dnn}),
        "recurrence": cn.Network(outputs={"output": cn.parameter("V", (2, 4)) @ h}),
        "slices": cn.Network(outputs={"output": sliced}),
        "component": cn.Network(outputs={"output": cn.component("NormalizeComponent dim=4", cn.copy(h) * h)}),
        "lstm": cn.Network(outputs={"output": cn.macros.lstm(cn.input("x", 3), 4).h}),
        "blstm": cn.Network(outputs={"output": cn.macros.blstm(cn.input("x", 3), 4)}),
    }


@pytest.mark.parametrize("name", ["dnn", "recurrence", "slices", "component", "lstm", "blstm"])
def test_there_and_back(name) -> None:
    net = random_values(networks()[name])
    value = RANDOM.normal(size=(3, 7)).astype(np.float32)
    nnet = net.to_nnet()
    expected = columns(net.evaluate("output", {"x": cn.sequences([value])}))
    np.testing.assert_allclose(run(nnet, value), expected, rtol=1e-4, atol=1e-5)
    again = cn.from_nnet(nnet)
    np.testing.assert_allclose(
        columns(again.evaluate("output", {"x": cn.sequences([value])})), expected, rtol=1e-4, atol=1e-5
    )


def run_all(nnet: nnet3.Nnet, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All outputs for one sequence, all frames of each."""
    count = next(iter(inputs.values())).shape[1]
    indexes = np.array([(0, t, 0) for t in range(count)])
    request = nnet3.ComputationRequest(
        inputs=[nnet3.IoSpecification(name, indexes) for name in inputs],
        outputs=[nnet3.IoSpecification(name, indexes) for name in nnet.output_names],
    )
    computer = nnet3.NnetComputer(nnet3.compile(nnet, request), nnet)
    for name, array in inputs.items():
        computer.accept_input(name, array.T)
    computer.run()
    return {name: computer.get_output(name).numpy().T for name in nnet.output_names}


@settings(max_examples=draws(20))
@given(st.randoms(use_true_random=False))
def test_random_networks_in_kaldis_files(random) -> None:
    """What has a counterpart gives the same as an nnet3 network that was written and read, and as that made back."""
    maker = Maker(random, ("one", "two", "times", "delay", "slice", "stack", "scale", "diag", "image", "loop", "fixed"))
    for _ in range(random.randint(2, 8)):
        maker.step()
    maker.close()
    made = [node for node in maker.pool if node.operands] or [cn.tanh(maker.pool[0])]
    try:
        net = cn.Network(outputs={"output": made[-1], "other": maker.choose(made)})
        nnet = net.to_nnet()
    except NetworkError:
        assume(False)
    with TemporaryDirectory() as folder:
        nnet.save(Path(folder) / "net", binary=random.random() < 0.5)
        nnet = nnet3.load_nnet(Path(folder) / "net")
    count = random.randint(1, 7)
    inputs = {node.name: maker.rng.normal(size=(node.rows, count)).astype(np.float32) for node in net.inputs}
    sequences = {name: cn.sequences([array]) for name, array in inputs.items()}
    expected = dict(zip(("output", "other"), net.evaluate(["output", "other"], sequences), strict=True))
    found, back = run_all(nnet, inputs), cn.from_nnet(nnet)
    for name, (value,) in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
        np.testing.assert_allclose(back.evaluate(name, sequences)[0], value, rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda x: cn.cos(x, x), r"'\w+' \(cos\) is an operation of computational networks"),
        (lambda x: cn.delay(x, default=0.5), "has default 0.5, where IfDefined has 0"),
        (lambda x: cn.delay(x, initial=cn.input("state", 3)), "has an initial state"),
        (lambda x: cn.delay(cn.delay(x)), "a value of delays alone"),
        (lambda x: x + cn.parameter("b", (1, 1)), "repeats an operand|belongs to no sample"),
        (
            lambda x: cn.tanh(cn.parameter("A", (2, 2)) @ cn.parameter("B", (2, 3))) @ x,
            "belongs to no sample|no parameter",
        ),
    ],
)
def test_what_has_no_counterpart(make, says) -> None:
    with pytest.raises(NetworkError, match=says):
        cn.Network(outputs={"output": make(cn.input("x", 3))}).to_nnet()


def lines_of(net: cn.Network) -> list[str]:
    """Without the ends that are alike."""
    found = "\n".join(net.to_nnet().config_lines()).replace(" objective=linear", "")
    return [line.replace("component-node", "node") for line in found.splitlines()]


def weights(name: str, rows: int, cols: int) -> cn.Node:
    return cn.parameter(name, (rows, cols), RANDOM.normal(size=(rows, cols)))


X, Y = cn.input("x", 3), cn.input("y", 3)
W, B = weights("W", 2, 3), weights("b", 2, 1)
PRODUCT = cn.times(W, X, name="WX")
H = cn.tanh(X, name="h")
#: Outputs, and the lines of their nodes.
LINES: list[tuple[dict[str, cn.Node], list[str]]] = [
    ({"o": X}, ["input-node name=x dim=3", "output-node name=o input=x"]),
    (
        {"o": cn.plus(PRODUCT, B, name="a")},
        ["input-node name=x dim=3", "node name=a component=a input=x", "output-node name=o input=a"],
    ),
    (
        {"o": cn.plus(B, cn.times(W, H), name="a")},
        [
            "input-node name=x dim=3",
            "node name=h component=h input=x",
            "node name=a component=a input=h",
            "output-node name=o input=a",
        ],
    ),
    (  # what is an output, or used elsewhere, is computed
        {"o": cn.plus(PRODUCT, B, name="a"), "p": PRODUCT},
        [
            "input-node name=x dim=3",
            "node name=WX component=WX input=x",
            "node name=a component=a input=WX",
            "output-node name=o input=a",
            "output-node name=p input=WX",
        ],
    ),
    (
        {"o": cn.plus(PRODUCT, B, name="a"), "t": cn.tanh(PRODUCT, name="t")},
        [
            "input-node name=x dim=3",
            "node name=WX component=WX input=x",
            "node name=a component=a input=WX",
            "node name=t component=t input=WX",
            "output-node name=o input=a",
            "output-node name=t.output input=t",
        ],
    ),
    (
        {"h": H, "h.output": cn.plus(X, Y, name="sum"), "sum": cn.row_stack(H, X)},
        [
            "input-node name=x dim=3",
            "node name=h component=h input=x",
            "input-node name=y dim=3",
            "output-node name=h.output input=h",
            "output-node name=h.output.output input=Sum(x, y)",
            "output-node name=sum input=Append(h, x)",
        ],
    ),
    (
        {"output": cn.tanh(X, name="output")},
        [
            "input-node name=x dim=3",
            "node name=output component=output input=x",
            "output-node name=output.output input=output",
        ],
    ),
    (  # parts of sums are equal in number, and a node has one scale in a sum
        {"o": cn.plus(cn.row_stack(X, Y, name="s"), cn.input("z", 6))},
        [
            "input-node name=x dim=3",
            "input-node name=y dim=3",
            "node name=s component=s input=Append(x, y)",
            "input-node name=z dim=6",
            "output-node name=o input=Sum(s, z)",
        ],
    ),
    (
        {"o": cn.plus(cn.scale(0.5, X, name="half"), cn.delay(X, -2))},
        [
            "input-node name=x dim=3",
            "node name=half component=half input=Scale(0.5, x)",
            "output-node name=o input=Sum(half, IfDefined(Offset(x, 2)))",
        ],
    ),
    (
        {"o": cn.row_stack(cn.scale(2.0, X), cn.delay(Y, 3))},
        [
            "input-node name=x dim=3",
            "input-node name=y dim=3",
            "output-node name=o input=Append(Scale(2, x), IfDefined(Offset(y, -3)))",
        ],
    ),
    (
        {"o": cn.delay(cn.plus(X, Y, name="sum")), "p": cn.scale(3.0, cn.row_stack(X, Y, name="both"))},
        [
            "input-node name=x dim=3",
            "input-node name=y dim=3",
            "node name=sum component=sum input=Sum(x, y)",
            "node name=both component=both input=Append(x, y)",
            "output-node name=o input=IfDefined(Offset(sum, -1))",
            "output-node name=p input=Scale(3, both)",
        ],
    ),
    (
        {"o": cn.row_slice(cn.row_stack(X, Y, name="both"), 2, 3, name="part")},
        [
            "input-node name=x dim=3",
            "input-node name=y dim=3",
            "node name=both component=both input=Append(x, y)",
            "dim-range-node name=part input-node=both dim-offset=2 dim=3",
            "output-node name=o input=part",
        ],
    ),
    (
        {"o": cn.element_times(X, Y, name="xy"), "d": cn.diag_times(weights("d", 3, 1), X, name="dx")},
        [
            "input-node name=x dim=3",
            "input-node name=y dim=3",
            "node name=xy component=xy input=Append(x, y)",
            "node name=dx component=dx input=x",
            "output-node name=o input=xy",
            "output-node name=d input=dx",
        ],
    ),
]


@pytest.mark.parametrize(("outputs", "lines"), LINES, ids=lambda value: ", ".join(value))
def test_nodes_become_config_lines(outputs, lines) -> None:
    assert lines_of(cn.Network(outputs=outputs)) == lines


@pytest.mark.parametrize("outputs", [outputs for outputs, _ in LINES], ids=", ".join)
def test_what_goes_there_and_back_has_the_same_values(outputs) -> None:
    """Also where a sum has a parameter on its left, and of all outputs, in their order."""
    net = cn.Network(outputs=outputs)
    inputs = {net.names[node]: RANDOM.normal(size=(node.shape.rows, 5)).astype(np.float32) for node in net.inputs}
    batch = {name: cn.sequences([value]) for name, value in inputs.items()}
    again = cn.from_nnet(net.to_nnet())
    for name, other in zip(net.outputs, again.outputs, strict=True):
        np.testing.assert_allclose(again.evaluate(other, batch)[0], net.evaluate(name, batch)[0], rtol=1e-5, atol=1e-6)


COMPONENTS = {
    "affine": (cn.plus(PRODUCT, B), "NaturalGradientAffineComponent", {"linear_params": W, "bias_params": B}),
    "linear": (PRODUCT, "LinearComponent", {"params": W}),
    "offset": (cn.plus(B, cn.input("z", 2)), "PerElementOffsetComponent", {"offsets": B}),
    "scales": (cn.diag_times(B, cn.input("z", 2)), "PerElementScaleComponent", {"params": B}),
}


@pytest.mark.parametrize("name", COMPONENTS)
def test_parameters_are_copied(name) -> None:
    node, type_name, expected = COMPONENTS[name]
    (component,) = cn.Network(outputs={"o": node}).to_nnet().components.values()
    assert component.type_name == type_name
    found = component.parameters()
    assert set(found) == set(expected)
    for key, parameter in expected.items():
        np.testing.assert_array_equal(found[key].numpy().ravel(), parameter.value.ravel())
    found[key].zero_()
    assert expected[key].value.all()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: cn.Network(cn.l2_norm(X)), "without outputs has no nnet3 counterpart"),
        (lambda: cn.Network(outputs={"o": cn.times(W, weights("V", 3, 2))}), "'V' (parameter) belongs to no sample"),
        (lambda: cn.Network(outputs={"o": W}), "'W' (parameter) belongs to no sample"),
        (lambda: cn.Network(outputs={"o": cn.element_times(X, cn.input("o", 1))}), "is an operation of computational"),
        (lambda: cn.Network(outputs={"o": cn.scale(weights("c", 1, 1), X)}), "(scale) is an operation of"),
        (lambda: cn.Network(outputs={"o": cn.diag_times(cn.tanh(B), cn.input("z", 2))}), "'b' (parameter) belongs"),
        (lambda: cn.Network(outputs={"o": X + cn.input("o", 1)}), "repeats an operand"),
        (lambda: cn.Network(outputs={"o": cn.input("c", (3, 2))}), "'c' (input) is an operation of computational"),
        (lambda: cn.Network(outputs={"o": X - Y}), "(minus) is an operation of computational networks"),
    ],
)
def test_what_nnet3_has_not(make, says) -> None:
    with pytest.raises(NetworkError, match=re.escape(says)):
        make().to_nnet()


@pytest.mark.parametrize(
    ("stride", "pad", "dilation", "has_bias"),
    [(1, True, 1, True), (1, False, 1, False), (2, True, 1, True), ((2, 1), False, (1, 2), True), (2, True, 2, False)],
)
@pytest.mark.parametrize("pooling", ["max", "average"])
def test_convolution_and_pooling(tmp_path, stride, pad, dilation, has_bias, pooling) -> None:
    """Outputs are equal, also of the network that is read back; left-over pixels and margins are seen to."""
    image = (5, 6, 2)
    x = cn.input("x", 60)
    bias = cn.parameter("b", (3, 1)) if has_bias else None
    kernels = cn.parameter("K", (3, 18))
    options = {"image": image, "window": 3, "stride": stride, "pad": pad, "dilation": dilation}
    h = cn.convolution(kernels, cn.copy(x) + cn.delay(x, 1), bias, name="conv", **options)
    size = (*h.operation.value_size, 3)
    window = (min(2, size[0]), min(2, size[1]))
    y = cn.max_pooling(cn.relu(h), image=size, window=window, stride=1)
    if pooling == "average":
        y = cn.average_pooling(cn.relu(h), image=size, window=window, stride=stride, pad=pad)
    net = random_values(cn.Network(outputs={"output": y}))
    value = RANDOM.normal(size=(60, 4)).astype(np.float32)
    expected = columns(net.evaluate("output", {"x": cn.sequences([value])}))
    nnet = net.to_nnet()
    np.testing.assert_allclose(run(nnet, value), expected, rtol=1e-4, atol=1e-5)
    nnet.save(tmp_path / "final.raw")
    np.testing.assert_allclose(run(nnet3.load(tmp_path / "final.raw"), value), expected, rtol=1e-4, atol=1e-5)
