"""Programs: shared by batches and networks that are alike, and made for shapes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnet3 import cn
from nnet3.engine.driver import ComputationCache, compile_task
from nnet3.errors import ArgumentError
from nnet3.options import CompileOptions
from tests.cn.reference import columns, compare
from tests.cn.small_networks import batch, recurrence
from tests.seeds import RANDOM


def test_batches_of_the_same_lengths_share_a_program() -> None:
    net = recurrence(initial=cn.input("state", 4))
    for lengths in ((2, 4, 3), (4, 3, 2), (3, 2, 4)):
        state = RANDOM.normal(size=(4, 3))
        inputs = {
            "x": batch(3, lengths),
            "y": batch(2, lengths),
            "state": cn.sequences([state[:, i : i + 1] for i in range(3)]),
        }
        compare(net, inputs)
        again = net.evaluate("h", {**inputs, "state": state})
        np.testing.assert_array_equal(columns(again), columns(net.evaluate("h", inputs)))
    assert len(net._runners) == 2


def test_lengths_that_come_once_give_way_and_those_that_come_again_stay() -> None:
    net = recurrence()
    many = [(n + 6, n % 5 + 1) for n in range(12)]
    for number, lengths in enumerate([*many, *many[3:9], *many[3:9], (40, 2), (41, 3), (42, 1), (43, 5), (44, 6)]):
        inputs = {"x": batch(3, lengths), "y": batch(2, lengths)}
        if number < len(many):
            net.gradients(inputs)
            assert len(net._runners) <= 4
        else:
            compare(net, inputs)
    assert len(net._runners) == 2 * 6 + 4  # of gradients and of values


def test_the_optimizer_changes_nothing() -> None:
    inputs = {"x": batch(3), "y": batch(2)}
    found = []
    for optimize in (True, False):
        net = recurrence()
        net.optimize = optimize
        found.append((net.evaluate("h", inputs), net.gradients(inputs)))
    np.testing.assert_allclose(columns(found[0][0]), columns(found[1][0]), rtol=1e-12)
    for name, gradient in found[0][1].items():
        np.testing.assert_allclose(gradient, found[1][1][name], rtol=1e-10)


def test_the_program_that_is_shown_is_the_one_that_runs() -> None:
    net, inputs = recurrence(), {"x": batch(3), "y": batch(2)}
    net.cache = ComputationCache()
    net.gradients(inputs)
    compiled = net.cache.counts.compiled
    assert compiled
    net.program(inputs)
    assert net.cache.counts.compiled == compiled


def test_options_of_the_compiler_say_which_passes_run() -> None:
    inputs, few = {"x": batch(3), "y": batch(2)}, CompileOptions(level=1, disabled_passes=frozenset(["dead_code"]))
    net = recurrence()
    all_of_them = net.program(inputs)
    net.compile_options = few
    assert len(net.program(inputs).commands) > len(all_of_them.commands)
    assert net.copy().compile_options == few
    net.optimize = False
    assert net.compile_options == replace(few, optimize=False)
    assert str(net.program(inputs)) == str(compile_task(net.task(inputs)))
    made = cn.Network(outputs=net.outputs, optimize=False, compile_options=few)
    assert made.compile_options == replace(few, optimize=False)
    with pytest.raises(ArgumentError, match="the compile_options of a network"):
        cn.Network(outputs=net.outputs, compile_options={"level": 1})


def test_networks_that_are_alike_share_compiled_programs(tmp_path) -> None:
    cache = ComputationCache(folder=tmp_path)
    inputs = {"x": batch(3), "y": batch(2)}
    first, second = recurrence(), recurrence()
    first.cache = second.cache = cache
    one, other = first.gradients(inputs), second.gradients(inputs)
    assert len(cache) == 1
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
    third = recurrence()
    third.cache = ComputationCache(folder=tmp_path)  # from the folder
    np.testing.assert_array_equal(third.gradients(inputs)["R"], one["R"])
    third.freeze("R")
    assert set(third.gradients(inputs)) == {"W", "V"}


def test_programs_of_given_values_know_their_shapes() -> None:
    cache = ComputationCache()
    for rows in (2, 3):
        x = cn.input("x", rows)
        h = cn.tanh(x, name="h")
        net = cn.Network(outputs={"h": h, "total": cn.sum_elements(h, name="total")}, cache=cache)
        X = {"x": np.ones((rows, 2))}
        net.evaluate("h", X)
        assert net.evaluate("total", X) == pytest.approx(2 * rows * np.tanh(1))  # h is given
        assert net.computed == ("total",)


@pytest.mark.parametrize("asked", ["h", "c"])
def test_sequences_of_several_lengths_run_as_each_would_alone(asked: str) -> None:
    cells, cache = cn.macros.lstm(cn.input("x", 3), 4), ComputationCache()
    net = cn.Network(outputs={"y": getattr(cells, asked)}, cache=cache)
    for number, lengths in enumerate(((30, 20, 25), (9, 3, 12, 12, 1)), 1):
        arrays = [RANDOM.normal(size=(3, length)) for length in lengths]
        together = columns(net.evaluate("y", {"x": cn.sequences(arrays)}))
        alone = [columns(net.evaluate("y", {"x": cn.sequences([each])})) for each in arrays]
        np.testing.assert_allclose(together, np.concatenate(alone, axis=1), rtol=1e-5, atol=1e-6)
        assert (cache.counts.restricted, cache.refusals) == (number, [])
