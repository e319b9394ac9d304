"""Requests as members of rows of requests: shorter ones, those of fewer sequences, those for longer ones."""

from __future__ import annotations

import numpy as np
import pytest

import nnet3
from nnet3.engine.driver.task import CompileTask, key_digest
from nnet3.engine.families.ragged_rows import NotRaggedError
from nnet3.model.requests import StateRequest
from tests.driver.ragged_requests import ragged_request
from tests.families.networks import BLSTM, POOLING, TDNN, request_for


def assert_same(one: CompileTask, other: CompileTask) -> None:
    assert key_digest(one.key) == key_digest(other.key)


@pytest.mark.parametrize(("config", "apart", "increment"), [(TDNN, 1, 1), (BLSTM, 1, 3), (POOLING, 5, 5)])
def test_shorter_tasks_are_those_of_shorter_requests(config: str, apart: int, increment: int) -> None:
    nnet = nnet3.Nnet.from_config(config)
    series = request_for(nnet, 300, 2, apart).task(nnet).series()
    assert series is not None
    assert series.increment == (0, increment, 0)
    for j in (0, 1, series.k):
        expected = request_for(nnet, 300 - (series.k - j) * increment // apart, 2, apart)
        task, rows = series.shorter(j)
        assert all(map(np.array_equal, rows, expected.rows))
        assert_same(task, expected.task(nnet))


def test_few_frames_have_a_form_in_which_sequences_are_counted() -> None:
    nnet = nnet3.Nnet.from_config(TDNN)
    assert request_for(nnet, 3, 5).task(nnet).series() is None
    series = request_for(nnet, 3, 9).task(nnet).series()
    assert series is not None
    assert (series.k, series.increment, series.sequences()) == (5, (1, 0, 0), None)
    assert_same(series.shorter(1)[0], request_for(nnet, 3, 5, by_time=True).task(nnet))


def test_the_length_of_streams_is_not_free() -> None:
    nnet = nnet3.Nnet.from_config(TDNN)
    request = request_for(nnet, 50, 9)
    series = StateRequest(request.inputs, request.outputs).task(nnet).series()
    assert series is not None
    assert series.increment == (1, 0, 0)


def test_members_of_the_form_for_other_numbers_of_sequences() -> None:
    nnet = nnet3.Nnet.from_config(TDNN)
    series = request_for(nnet, 50, 9).task(nnet).series()
    assert series is not None
    others = series.sequences()
    assert others is not None
    assert others.n == 5
    for j, n in ((0, 0), (1, 1), (series.k, 5)):
        assert_same(others.member(j, n)[0], request_for(nnet, 50 - series.k + j, 4 + n).task(nnet))


@pytest.mark.parametrize("by_time", [False, True])
def test_sequences_of_several_lengths_are_the_first_parts_of_longer_ones(by_time: bool) -> None:
    nnet = nnet3.Nnet.from_config(TDNN)
    task = ragged_request(nnet, [9, 31, 20], by_time=by_time).task(nnet)
    relation = task.ragged()
    assert relation is not None
    assert task.series() is None
    assert (relation.numbers, relation.granularity, relation.period) == ([1, 2, 0], 1, 1)
    assert relation.missing == [17, 28, 39]  # of 48 frames
    assert relation.lasting == {"ivector"}
    assert_same(relation.longer, request_for(nnet, 48, 3, by_time=by_time).task(nnet))


def test_what_is_no_part_of_longer_sequences() -> None:
    nnet = nnet3.Nnet.from_config(TDNN)
    request = ragged_request(nnet, [9, 31, 20])
    assert ragged_request(nnet, [9, 9]).task(nnet).ragged() is None
    rows = request.outputs[0].indexes
    gaps = nnet3.IoSpecification("output", rows[(rows[:, 0] != 1) | (rows[:, 1] != 7)])
    with pytest.raises(NotRaggedError, match="rows of output differ by more than where sequences end"):
        nnet3.ComputationRequest(request.inputs, [gaps]).task(nnet).ragged()
    with pytest.raises(NotRaggedError, match="derivatives are limited"):
        request.task(nnet, nnet3.CompileOptions(max_deriv_time=3)).ragged()
