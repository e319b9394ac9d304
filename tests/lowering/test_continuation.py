"""The proof that all longer requests go on alike: what it takes, and that programs are wrong without any part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

import nnet3
from nnet3.engine.driver import family_store as family_shelf
from nnet3.engine.lowering import continuation
from nnet3.engine.lowering.continuation import frames_missing
from nnet3.engine.lowering.sweeps import finished_sweeps
from nnet3.errors import ProofError
from nnet3.model.requests import NnetSource, lowering_request
from nnet3.model.structure.forwarding import ForwardingDescriptor
from tests.families.networks import compiled, same_program

HEAD = "input-node name=input dim=3\n"
#: Networks whose rows are of one kind at first and of another one later.
ECHO = HEAD + "output-node name=output input=Sum(input, IfDefined(Offset(input, -20)))"
CHAIN = (
    HEAD
    + """
    component name=a type=NoOpComponent dim=3
    component name=b type=NoOpComponent dim=3
    component-node name=a component=a input=Offset(input, -12)
    component-node name=b component=b input=Offset(a, -12)
    output-node name=output input=Sum(input, IfDefined(Offset(b, -12)))
"""
)
WIDE = HEAD + "output-node name=output input=Sum(Offset(input, -9), Offset(input, 9))"
FIXED = HEAD + "output-node name=output input=Sum(input, IfDefined(ReplaceIndex(input, t, 35)))"
SELDOM = HEAD + f"output-node name=output input=Switch({'input, ' * 30}Offset(input, -1){', input' * 6})"
AFFINE = (
    HEAD
    + """
    component name=a type=AffineComponent input-dim=3 output-dim=3
    component-node name=a component=a input=Sum(input, IfDefined(Offset(a, -1)))
    output-node name=output input=a
"""
)


def request(
    length: int, begin: int = 0, end: int = 0, gap: Sequence[int] = (), train: bool = True
) -> nnet3.ComputationRequest:
    """Outputs at `length` times, input from `begin` before them to `end` behind them but for a gap."""

    def rows(times: Sequence[int]) -> np.ndarray:
        return np.array([(0, t, 0) for t in times], np.int32)

    given = [t for t in range(-begin, length + end) if t not in gap]
    return nnet3.ComputationRequest(
        [nnet3.IoSpecification("input", rows(given), train)],
        [nnet3.IoSpecification("output", rows(range(length)), train)],
        train,
    )


def missing(config: str, length: int, period: int = 1, **how: object) -> int | None:
    nnet = nnet3.Nnet.from_config(config)
    options = nnet3.CompileOptions(**{key: how.pop(key) for key in list(how) if "deriv_time" in key})
    source = NnetSource(nnet)
    requests = [request(frames, **how) for frames in (length, length + period)]
    lowered = [lowering_request(nnet, each, each.deriv_times(options)) for each in requests]
    return frames_missing(*[finished_sweeps(source, each) for each in lowered], period)


@pytest.mark.parametrize(
    ("config", "how", "least"),
    [
        (ECHO, {}, 41),
        (CHAIN, {}, 73),  # 37 until there is a row that uses b, and those that it uses are of one kind 36 later
        (WIDE, {"begin": 9, "end": 9}, 19),
        (FIXED, {}, 36),
        (AFFINE, {"min_deriv_time": 30}, 32),
    ],
)
def test_how_long_requests_must_be(config: str, how: dict[str, int], least: int) -> None:
    """What is found wanting leads to a length that is enough; no longer one is found wanting."""
    length = 12
    for _ in range(6):
        length += missing(config, length, **how) or 0
    assert least <= length <= least + 1
    assert missing(config, least - 1, **how) != 0
    for more in (0, 1, 7, 40):
        assert missing(config, least + more, **how) == 0


def test_rules_of_a_longer_period_tell_nothing() -> None:
    assert missing(SELDOM, 200) is None
    assert missing(SELDOM, 200, period=37) == 0


def programs_are_right(config: str, lengths: Sequence[int], options: nnet3.CompileOptions | None = None) -> int:
    """Compile requests of these lengths in turn; returns how many were continued. Fails if one is wrong."""
    nnet, cache = nnet3.Nnet.from_config(config), nnet3.ComputationCache()
    for length in lengths:
        each = request(length)
        assert same_program(cache.compile(nnet, each, options), compiled(nnet, each, options)), length
    return cache.counts.continued


def _nothing_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family_shelf, "frames_missing", lambda *cases: 0)


def _no_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    real = continuation._missing
    monkeypatch.setattr(continuation, "_missing", lambda line, *more: real(replace(line, looks=[]), *more))


def _no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuation, "_zone_of_limits", lambda *limits: continuation._Zone(-(2**40), 2**40))


def _no_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ForwardingDescriptor, "period", 1)


@pytest.mark.parametrize(
    ("understate", "config", "lengths", "options"),
    [
        (_nothing_missing, ECHO, (20, 19, 70), None),
        (_nothing_missing, CHAIN, (30, 25, 80), None),
        (_no_distances, ECHO, (20, 19, 70), None),
        (_no_limits, AFFINE, (27, 22, 70), nnet3.CompileOptions(min_deriv_time=30)),
        (_no_periods, SELDOM, (25, 22, 120), None),
    ],
)
def test_programs_are_wrong_where_reach_is_understated(
    understate: Callable[[pytest.MonkeyPatch], None],
    config: str,
    lengths: Sequence[int],
    options: nnet3.CompileOptions | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs_are_right(config, lengths, options)
    understate(monkeypatch)
    with pytest.raises((AssertionError, ProofError)):
        programs_are_right(config, lengths, options)
