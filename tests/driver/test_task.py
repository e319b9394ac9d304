"""The one way from a graph and a request to a program: both front-ends go it, and it knows neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnet3 import CompileOptions, ComputationCache, ComputationRequest, IoSpecification, Nnet, cn, compile
from nnet3.engine.driver import CompileTask, compile_task
from nnet3.engine.ir.passes.pipeline import optimize
from nnet3.engine.lowering.lower import lower
from nnet3.engine.lowering.source import GraphSource, LoweringRequest, RequestedRows
from nnet3.errors import ArgumentError
from tests.call_count import count_calls_of
from tests.lowering.toy_front_end import Look, Part, Term, ToyGraph

CONFIG = """
input-node name=input dim=2
component name=tanh type=TanhComponent dim=2
component-node name=tanh component=tanh input=Offset(input, -1)
output-node name=output input=tanh
"""
REQUEST = ComputationRequest([IoSpecification("input", [(0, -1)])], [IoSpecification("output", [(0, 0)])])
X = {"x": np.ones((2, 3))}


def _network_in_a_cache() -> Callable[[], object]:
    nnet, cache = Nnet.from_config(CONFIG), ComputationCache()
    return lambda: cache.compile(nnet, REQUEST)


def _values_of_a_computational_network() -> Callable[[], object]:
    net = cn.Network(outputs=cn.tanh(cn.input("x", 2)), cache=ComputationCache())
    return lambda: net.evaluate("output1", X)


def _gradients_of_a_computational_network() -> Callable[[], object]:
    net = cn.Network(cn.sum_elements(cn.parameter("W", (3, 2)) @ cn.input("x", 2)), cache=ComputationCache())
    return lambda: net.gradients(X)


@pytest.mark.parametrize(
    "prepared",
    [_network_in_a_cache, _values_of_a_computational_network, _gradients_of_a_computational_network],
)
def test_both_front_ends_compile_by_one_function_and_once(prepared: Callable[[], Callable[[], object]]) -> None:
    work = prepared()
    assert count_calls_of(compile_task, work) == 1
    assert count_calls_of(compile_task, work) == 0
    work = prepared()
    assert count_calls_of(optimize, work) == count_calls_of(lower, prepared()) == 1


def test_without_a_cache_it_is_the_same_function() -> None:
    nnet = Nnet.from_config(CONFIG)
    assert count_calls_of(compile_task, compile, nnet, REQUEST) == 1


def _toy_task(made: list[str], options: CompileOptions) -> CompileTask:
    """A front-end of its own: two values, one twice the other."""
    graph = ToyGraph()
    first = graph.input(2)
    last = graph.gather(Part((Term((Look(first, scale=2.0),)),), 2))
    row = np.zeros((1, 3), np.int32)
    request = LoweringRequest([RequestedRows(first, "in", row)], [RequestedRows(last, "out", row)])

    def lowered_from() -> tuple[GraphSource, LoweringRequest]:
        made.append("source and request")
        return graph, request

    return CompileTask({"toy": made[:0]}, lowered_from, options, {"aspect": "digest"})


def test_a_known_program_needs_neither_source_nor_request() -> None:
    cache, made = ComputationCache(), list[str]()
    first = cache.program(_toy_task(made, CompileOptions()))
    assert first.fingerprint == {"aspect": "digest"}
    assert cache.program(_toy_task(made, CompileOptions())) is first
    assert len(made) == 1
    assert cache.program(_toy_task(made, CompileOptions(optimize=False))) is not first
    assert len(made) == 2


def test_something_else_than_a_request() -> None:
    wrong: Any = "output"
    with pytest.raises(ArgumentError, match="the request must be a ComputationRequest, got 'output'"):
        ComputationCache().compile(Nnet.from_config(CONFIG), wrong)
