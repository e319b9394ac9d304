"""Requests: what makes two of them equal, and how they print."""

from __future__ import annotations

import pytest
import torch

from nnet3 import ComputationRequest, IoSpecification, Nnet, NnetComputer, compile
from nnet3.errors import ArgumentError, RequestError
from nnet3.model.requests import StateRequest
from nnet3.model.requests.request import check_request

FRAMES = [(0, t, 0) for t in range(3)]


def io(name: str, rows: list[tuple[int, int, int]] = FRAMES, has_deriv: bool = False) -> IoSpecification:
    return IoSpecification(name, rows, has_deriv)


REQUESTS = [
    ComputationRequest([io("input")], [io("output")]),
    ComputationRequest([io("input", has_deriv=True)], [io("output")]),
    ComputationRequest([io("input")], [io("output", has_deriv=True)]),
    ComputationRequest([io("input", has_deriv=True)], [io("output", has_deriv=True)]),
    ComputationRequest([io("input")], [io("output", has_deriv=True)], need_model_derivative=True),
    ComputationRequest([io("input")], [io("output")], store_component_stats=True),
    ComputationRequest([io("input"), io("ivector", FRAMES[:1])], [io("output")]),
    ComputationRequest([io("ivector", FRAMES[:1]), io("input")], [io("output")]),
    ComputationRequest([io("input", FRAMES[::-1])], [io("output")]),
    ComputationRequest([io("input")], [io("output", FRAMES[:2])]),
    ComputationRequest([io("input")], [io("second")]),
    ComputationRequest([], [io("input"), io("output")]),
    ComputationRequest([io("input")], [io("output", has_deriv=True)], True, frozen=["a"]),
    ComputationRequest([io("input")], [io("output", has_deriv=True)], True, frozen=["a", "b"]),
]


def test_what_makes_a_difference() -> None:
    keys = [request.key() for request in REQUESTS]
    assert len(set(keys)) == len(keys)
    assert len({str(request) for request in REQUESTS}) == len(REQUESTS)
    again = ComputationRequest((io("input"),), (io("output"),), False, False)
    assert again.key() == keys[0]


def test_what_needs_a_backward_pass() -> None:
    assert [request.needs_backward for request in REQUESTS] == [False, True, True, True, True] + 7 * [False] + 2 * [
        True
    ]


def test_a_request_prints_a_line_for_each_io() -> None:
    request = ComputationRequest([io("input")], [io("output", FRAMES[:2], has_deriv=True)], True, True, ["b", "a"])
    assert str(request).splitlines() == [
        "input input [ (0, 0:2) ]",
        "output output [ (0, 0:1) ] with derivative",
        "need_model_derivative",
        "store_component_stats",
        "frozen a, b",
    ]


def test_what_is_no_request_or_no_network() -> None:
    nnet = Nnet.from_config("input-node name=input dim=1\noutput-node name=output input=input")
    check_request(nnet, REQUESTS[0])
    with pytest.raises(ArgumentError, match="the request must be a ComputationRequest"):
        check_request(nnet, [REQUESTS[0]])  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="expected a network to compile, got str"):
        check_request("nnet", REQUESTS[0])  # type: ignore[arg-type]


def test_requests_of_streams_ask_for_rows_of_component_nodes() -> None:
    nnet = Nnet.from_config("""
        input-node name=input dim=2
        component name=a type=NoOpComponent dim=2
        component-node name=a component=a input=Sum(input, IfDefined(Offset(a, -1)))
        output-node name=output input=a
    """)
    ios = [io("input", FRAMES), io("a", [(0, -1, 0)])], [io("output", FRAMES), io("a", FRAMES[-1:])]
    computer = NnetComputer(compile(nnet, StateRequest(*ios)), nnet)
    outputs = computer.compute({"input": torch.ones(3, 2), "a": torch.full((1, 2), 5.0)})
    assert outputs["output"][:, 0].tolist() == [6, 7, 8]
    assert outputs["a"].tolist() == [[8, 8]]
    with pytest.raises(RequestError, match="the network has no output 'a'"):
        compile(nnet, ComputationRequest(*ios))
    with pytest.raises(RequestError, match="the network has no output 'b'"):
        compile(nnet, StateRequest(ios[0], [io("b")]))
