"""The text form of graphs, and files: back and forth, and what is no network."""

from __future__ import annotations

import resource

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import ModelFormatError, NetworkError
from tests.seeds import RANDOM


def everything() -> cn.Network:
    x, state, labels = cn.input("x", 16), cn.input("state", 5), cn.input("labels", 3)
    c = cn.input("c", (2, 2))
    scaled = cn.per_dim_mean_var_norm(x, cn.mean(x, name="m"), cn.inv_std_dev(x, floor=0.5, name="s"))
    block, image = cn.macros.cnn_block(scaled, (4, 4, 1), 2, name="block")
    averaged = cn.average_pooling(block, image=image, window=2)
    d = cn.delay(None, lag=2, default=0.25, dim=5, name="d", initial=state)
    h = d.connect(cn.tanh(cn.parameter("W", (5, 2)) @ (c @ averaged) + cn.scale(0.5, d), name="h"))
    stacked = cn.row_stack(cn.row_slice(h, 1, 2), cn.dropout(0.3, cn.row_slice(h, 0, 1)))
    o = cn.parameter("V", (3, 3)) @ stacked + cn.constant([1.0, 2.0, 3.0])
    J = cn.cross_entropy_with_softmax(labels, o, name="J")
    net = cn.Network({J: 0.5, cn.l2_norm(cn.parameter("V2", (2, 2), 1.0), name="N"): 2.0}, {"posterior": cn.softmax(o)})
    net.freeze("W")
    return net


def inputs() -> dict[str, object]:
    lengths = (3, 5)
    batch = {n: cn.sequences([RANDOM.normal(size=(r, t)) for t in lengths]) for n, r in (("x", 16), ("labels", 3))}
    return {**batch, "state": cn.sequences([np.ones((5, 2))] * 2), "c": np.eye(2)}


def test_text_and_back() -> None:
    net = everything()
    text = cn.to_text(net)
    again = cn.from_text(text)
    assert cn.to_text(again) == text
    assert str(again) == str(net)
    assert "d = delay(h, state, rows=5, lag=2, default=0.25)" in text
    assert "W = parameter(rows=5, cols=2, trainable=False)" in text


def test_a_copy_is_equal_and_shares_nothing() -> None:
    net = everything()
    copy = net.copy()
    assert cn.to_text(copy) == cn.to_text(net)
    copy.set_parameters({"V": 7 * np.ones((3, 3))})
    assert (net.parameters()["V"] != 7).all()


def test_a_saved_network_is_loaded_the_same(tmp_path) -> None:
    net, batch = everything(), inputs()
    net.compute_statistics([{"x": batch["x"]}])
    path = tmp_path / "net.cn"
    cn.save(net, path)
    again = cn.load(path)
    for name in net.parameters():
        np.testing.assert_array_equal(again.parameters()[name], net.parameters()[name])
    for ours, theirs in zip(net.evaluate("posterior", batch), again.evaluate("posterior", batch), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert set(again.gradients(batch)) == set(net.gradients(batch))
    assert list(tmp_path.iterdir()) == [path]


def test_the_layout_stays(tmp_path) -> None:
    x = cn.input("x", 2)
    cn.save(cn.Network(outputs={"y": cn.parameter("W", (2, 2)) @ x}, layout="rows"), tmp_path / "net.cn")
    assert cn.load(tmp_path / "net.cn").evaluate("y", {"x": np.ones((3, 2))}).shape == (3, 2)


def test_the_same_network_is_saved_as_the_same_bytes(tmp_path) -> None:
    """In this process and in others, whose hashes of texts are others."""
    net = cn.Network(outputs={"n": cn.mean(cn.input("x", 2)) + cn.parameter("W", (2, 3))})
    cn.save(net, tmp_path / "net.cn")
    data = (tmp_path / "net.cn").read_bytes()
    for _ in range(8):
        cn.save(cn.load(tmp_path / "net.cn"), tmp_path / "again.cn")
        assert (tmp_path / "again.cn").read_bytes() == data


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_the_type_of_numbers_stays(tmp_path, dtype) -> None:
    net = everything().to(dtype)
    cn.save(net, tmp_path / "net.cn")
    again = cn.load(tmp_path / "net.cn")
    assert again.dtype == dtype
    for name, value in net.parameters().items():
        np.testing.assert_array_equal(again.parameters()[name], value)


@pytest.mark.parametrize("damage", [b"", b"nothing", b"\xff" * 100])
def test_damaged_files_are_refused(tmp_path, damage) -> None:
    path = tmp_path / "net.cn"
    path.write_bytes(damage)
    with pytest.raises(ModelFormatError, match=r"net\.cn"):
        cn.load(path)


def test_cut_files_are_refused(tmp_path) -> None:
    path = tmp_path / "net.cn"
    cn.save(everything(), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFormatError):
            cn.load(path)


HEADER = "# computational network 1\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = input(rows=3)", "expected '# computational network 1'"),
        (HEADER + "x = input(rows=3)", "a network needs a criterion"),
        (HEADER + "x = inptu(rows=3)", r"line 2: there is no node type 'inptu'; did you mean 'input'\?"),
        (HEADER + "x = input(rows=3)\nx = input(rows=3)", "line 3: two nodes are called 'x'"),
        (HEADER + "x = input(rows=three)", "expected a number"),
        (HEADER + "x = input(rows=-3)", "all at least 1; got -3"),
        (HEADER + "x = input(rows='3')", "input: rows must be an integer, got '3'"),
        (HEADER + "x = input(lines=3)", "input: there is no option lines; options are: rows, cols"),
        (HEADER + "x = input()", "input: rows is missing"),
        (HEADER + "x = input(rows=3, rows=3)", "input: rows is given twice"),
        (HEADER + "x = mine(rows=3)", r"there is no node type 'mine'; .* are registered before \(cn\.register\)"),
        (HEADER + "x = input(rows=3)\noutput 3 + 4 = x", "expected a number, a text"),
        (HEADER + "x = input(rows=3)\noutput (3, 4) = x", r"another name for each output, got \(3, 4\)"),
        (HEADER + "x = input(rows=3)\noutput a = x\noutput 'a' = x", "another name for each output, got 'a'"),
        (HEADER + "x = input(rows=3)\nb = parameter(rows=3)", "expected rows and columns"),
        (HEADER + "x = input(rows=3)\ny = tanh(z)", "line 3: there is no node 'z' above"),
        (HEADER + "x = input(rows=3)\ny = plus(x)", "plus has 2 operands, got 1"),
        (HEADER + "W = parameter(rows=100000, cols=100000)", "100000 x 100000 numbers are more than there can be"),
        (HEADER + "x = input(rows=3)\ny = times(x, x)", "line 3: times needs a first operand without samples"),
        (HEADER + "d = delay(d, rows=3, lag=1)\noutput d = d", "recurrence over parameters alone"),
        (HEADER + "import os", "expected NAME = TYPE"),
        (HEADER + "x = input(rows=__import__('os'))", "expected a number"),
    ],
)
def test_texts_that_are_no_networks(text, says) -> None:
    with pytest.raises(ModelFormatError, match=says):
        cn.from_text(text, "net.txt")


def test_statistics_take_memory_too() -> None:
    text = HEADER + "x = input(rows=6)\nm = mean(x)\ns = inv_std_dev(x)\noutput a = m\noutput b = s"
    cn.from_text(text, max_numbers=12)
    with pytest.raises(ModelFormatError, match="line 4: 6 x 1 numbers are more than there can be"):
        cn.from_text(text, max_numbers=11)


def test_what_does_not_fit_into_memory_is_refused() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 34, hard))
    try:
        with pytest.raises(ModelFormatError, match="line 2: a value of this size does not fit into memory"):
            cn.from_text(HEADER + "W = parameter(rows=1, cols=2147483647)", "net.txt")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, hard))


NAMES = ["my scores", "a = b", "it's", "\"quoted\" and 'quoted'", "two\nlines", " ", "softmax(x, 1)", "1", "ü\u2028\\"]


def test_outputs_of_any_names(tmp_path) -> None:
    h = cn.tanh(cn.input("x", 3))
    net = cn.Network(outputs={**dict.fromkeys(NAMES, h), "plain": h})
    text = cn.to_text(net)
    assert "output 'my scores' = tanh1\n" in text
    assert "output plain = tanh1\n" in text
    cn.save(net, tmp_path / "net.cn")
    for again in (cn.from_text(text), cn.load(tmp_path / "net.cn"), net.copy()):
        assert list(again.outputs) == list(net.outputs)
        assert again.evaluate("my scores", {"x": np.ones((3, 1))})[0, 0] == pytest.approx(np.tanh(1))


@pytest.mark.parametrize("name", [1, "", None, b"a", ("a",)])
def test_names_of_outputs_are_texts(name) -> None:
    with pytest.raises(NetworkError, match="expected texts as the names of outputs"):
        cn.Network(outputs={name: cn.input("x", 3)})
