"""The programs of networks in files: loops, branches, parameters, and networks without a program for all lengths."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import onnx_ir as ir
import pytest

from nnet3 import cn
from nnet3.errors import ExportError
from tests.cn.onnx.exported_network import ExportedNetwork
from tests.cn.small_networks import batch, recurrence
from tests.effort import EFFORT, at_night


def operators(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in ir.traversal.RecursiveGraphIterator(ir.load(path).graph))


def test_a_recurrence_is_one_loop_and_parameters_are_held_once(tmp_path: Path) -> None:
    exported = ExportedNetwork(recurrence(), tmp_path, "h")
    assert operators(exported.path)["Loop"] == 1
    assert operators(exported.path)["If"] == 0
    sizes = {name: value.shape for name, value in ir.load(exported.path).graph.initializers.items()}
    assert sizes["W"] == (3, 4)
    assert sizes["R"] == (4, 4)


def test_what_looks_at_the_end_has_a_program_for_each_short_length(tmp_path: Path) -> None:
    exported = ExportedNetwork(recurrence(lag=-2), tmp_path, "h")
    found = operators(exported.path)
    assert found["Loop"] == 2  # for even and odd numbers of frames
    assert found["If"] >= 2
    for length in range(1, 12) if EFFORT > 1 else (1, 2, 3, 6, 11):
        exported.check({"x": batch(3, (length,))})


def coupled_states(lags: tuple[int, ...], chain: int) -> cn.Network:
    """A state h that is fed back with each lag; of the lags but the first what is fed back looks at h again."""
    x = cn.input("x", 3)
    delays = [cn.delay(None, lag, dim=2) for lag in lags]
    total = cn.parameter("W", (2, 3), seed=1) @ x
    for number, delay in enumerate(delays):
        total = total + cn.parameter(f"R{number}", (2, 2), seed=2 + number) @ delay
    h = fed_back = cn.tanh(total, name="h")
    for number, delay in enumerate(delays):
        delay.connect(fed_back)
        beside = cn.delay(h, chain) if chain else fed_back
        fed_back = cn.tanh(cn.parameter(f"C{number}", (2, 2), seed=7 + number) @ (fed_back + beside))
    return cn.Network(outputs=[h])


@pytest.mark.parametrize(
    ("lags", "chain", "signs"),
    [
        ((1, 3, 1), 1, (-1,)),
        *at_night(*product([(3, 1), (1, 3, 1), (3, 2), (3, 2, 1)], [0, 1, 2], [(1, -1)])),
    ],
)
def test_coupled_delays_of_several_lags(
    lags: tuple[int, ...], chain: int, signs: tuple[int, ...], tmp_path: Path
) -> None:
    """An iteration of the loop may write rows that a later iteration writes again."""
    for sign in signs:
        exported = ExportedNetwork(coupled_states(tuple(sign * lag for lag in lags), sign * chain), tmp_path)
        assert operators(exported.path)["Loop"] >= 1
        for length in (*range(1, 8), 23) if EFFORT > 1 else (1, 2, 4, 7, 23):
            exported.check({"x": batch(3, (length, length))})


@pytest.mark.parametrize("outputs", [["na"], ["nb"], ["na", "nb"]])
@pytest.mark.parametrize(
    "form", [lambda x, a, b: x + 0.7 * a + b, lambda x, a, b: x + (0.7 * a + b), lambda x, a, b: b + x + 0.7 * a]
)
def test_how_a_sum_of_states_is_bracketed_changes_nothing(form, outputs: list[str], tmp_path: Path) -> None:
    x = cn.input("x", 3)
    a, b = cn.delay(None, dim=3, default=0.1), cn.delay(None, dim=3, default=-1)
    na, nb = a.connect(form(x, a, b)), b.connect(cn.tanh(a * x))
    exported = ExportedNetwork(cn.Network(outputs={"na": na, "nb": nb}), tmp_path, outputs)
    for length in (1, 2, 3, 4, 17):
        exported.check({"x": batch(3, (length, length))})


def test_the_advice_of_a_refusal_can_be_followed(tmp_path: Path) -> None:
    """With nodes of whole sequences no number of frames can be given, and nobody says that one could."""
    far = cn.tanh(cn.delay(cn.input("x", 3), 200), name="far")
    network = cn.Network(outputs={"far": far, "mean": cn.sequence.mean(far)})
    says = r"no program for all lengths of 'far' \(.*\): give the number of frames, as frames=20"
    with pytest.raises(ExportError, match=says):
        network.export_onnx(tmp_path / "network.onnx", "far")
    ExportedNetwork(network, tmp_path, ["far"], frames=20).check({"x": batch(3, (20, 20))})
    with pytest.raises(ExportError, match="has no file for one length: export what comes before and behind"):
        network.export_onnx(tmp_path / "network.onnx", "mean")
    with pytest.raises(ExportError, match="leave frames out, or export what comes before the node alone"):
        network.export_onnx(tmp_path / "network.onnx", "mean", frames=20)
