"""One cache, many numbers of sequences: each program is the one that is compiled for its request."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3 import cn
from nnet3.engine.driver import CompileTask, family_store as family_shelf
from nnet3.engine.families.continued import NotAffineError
from nnet3.engine.families.family import ProgramFamily
from nnet3.engine.ir.computation import NnetComputation
from tests.effort import EFFORT, at_night, nightly
from tests.families.networks import BLSTM, TDNN, compiled_alone, request_for, same_program
from tests.shared_data import GOLDEN, needs_shared

MANY = 64 if EFFORT > 1 else 20  # sequences
# Delays of samples that are no sequences have their defaults.
pytestmark = pytest.mark.filterwarnings("ignore:.*whose columns are samples that have nothing to do with each other")


class CheckingCache(nnet3.ComputationCache):
    """Compares each program that it makes of others with the one that is compiled for its shape."""

    def program(self, task: CompileTask) -> NnetComputation:
        compiled = self.counts.compiled
        program = super().program(task)
        assert self.counts.compiled > compiled or same_program(program, compiled_alone(task))
        return program


def counts_of(cache: nnet3.ComputationCache) -> tuple[int, int]:
    return cache.counts.compiled, cache.counts.continued


@pytest.mark.parametrize("by_time", [False, True])
@pytest.mark.parametrize("config", [TDNN, BLSTM])
def test_all_numbers_of_sequences_are_had_from_one_family(config: str, by_time: bool) -> None:
    nnet, cache = nnet3.Nnet.from_config(config, seed=1), CheckingCache()
    for frames, sequences in ((60, 7), (66, 7), (63, MANY), (57, 5)):
        compiled = cache.counts.compiled
        cache.compile(nnet, request_for(nnet, frames, sequences, train=True, by_time=by_time))
        assert cache.counts.compiled == compiled or sequences == 7
    for sequences in (1, 4):
        cache.compile(nnet, request_for(nnet, 57, sequences, train=True, by_time=by_time))
    assert cache.refusals == []


@pytest.mark.parametrize("config", [TDNN, BLSTM, "input-node name=input dim=3\noutput-node name=output input=input"])
def test_few_frames_are_had_for_all_numbers_of_sequences(config: str) -> None:
    """They are too few for a family of lengths."""
    nnet, cache = nnet3.Nnet.from_config(config, seed=1), CheckingCache()
    for frames in (1, 8):
        for sequences in (MANY, 17, 6):
            cache.compile(nnet, request_for(nnet, frames, sequences, train=True, by_time=frames == 8))
    assert counts_of(cache) == (2, 4)


def test_the_first_family_may_be_that_of_the_fewest_sequences() -> None:
    """It says nothing that the members of the new one do not say, so that another program confirms these."""
    nnet, cache = nnet3.Nnet.from_config(TDNN, seed=1), CheckingCache()
    for frames, sequences in ((40, 5), (30, 5), (35, 6), (50, 9)):
        cache.compile(nnet, request_for(nnet, frames, sequences))
    assert counts_of(cache) == (1, 3)


@pytest.mark.parametrize("method", ["check", "check_same"])
def test_a_promise_that_is_not_kept_is_refused(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nnet, cache = nnet3.Nnet.from_config(TDNN, seed=1), CheckingCache()
    fewest = 5 if method == "check" else 6
    for frames in (40, 30):
        cache.compile(nnet, request_for(nnet, frames, fewest))

    def refuse(*_: object) -> None:
        raise NotAffineError("one number is another")

    with monkeypatch.context() as patch:
        patch.setattr(ProgramFamily, method, refuse)
        cache.compile(nnet, request_for(nnet, 30, 8))
    assert cache.refusals == ["one number is another"]
    for frames in (40, 35, 36):
        cache.compile(nnet, request_for(nnet, frames, 8))
    assert counts_of(cache) == (2, 4)


def test_families_that_are_not_proved_reach_as_far_as_that_of_another_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A longer program is compiled, and confirms that of its own number."""
    monkeypatch.setattr(family_shelf, "frames_missing", lambda *_: None)
    nnet, cache = nnet3.Nnet.from_config(TDNN, seed=1), CheckingCache()
    found = []
    for frames, sequences in ((60, 7), (50, 7), (55, 9), (40, 8), (90, 9), (80, 9), (70, 8)):
        cache.compile(nnet, request_for(nnet, frames, sequences))
        found.append(counts_of(cache))
    assert found == [(1, 0), (1, 1), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]


def test_an_input_that_is_shorter_than_what_is_cut_off() -> None:
    """Members made of such a request are none; those of the next one are. The cache compares each program."""
    config = """
        input-node name=input dim=3
        input-node name=other dim=3
        output-node name=output input=Sum(input, IfDefined(Offset(input, -20)))
    """
    nnet, cache = nnet3.Nnet.from_config(config), CheckingCache()
    for frames, sequences in ((100, 7), (90, 7), (130, 8), (100, 8), (80, 9)):
        input_, other, output = (
            nnet3.IoSpecification(name, [(n, t, 0) for t in range(length) for n in range(sequences)])
            for name, length in (("input", frames), ("other", min(61, frames)), ("output", frames))
        )
        cache.compile(nnet, nnet3.ComputationRequest([input_, other], [output]))


def test_each_order_of_rows_has_a_family_of_its_own() -> None:
    nnet, cache = nnet3.Nnet.from_config(TDNN, seed=1), CheckingCache()
    for sequences in (6, 8, 9):
        for by_time in (False, True):
            for frames in (40, 30):
                cache.compile(nnet, request_for(nnet, frames, sequences, by_time=by_time))
    assert counts_of(cache) == (2, 10)


def _other(request: nnet3.ComputationRequest, how: str) -> nnet3.ComputationRequest:
    """The request with other numbers of sequences, or with rows of one sequence in another order or at other times."""

    def changed(rows: np.ndarray) -> np.ndarray:
        rows, number = rows.copy(), int(rows[:, 0].max()) + 1
        last = np.flatnonzero(rows[:, 0] == number - 1)
        if how == "far apart":
            rows[:, 0] *= 10**8
        elif how == "from 3":
            rows[:, 0] += 3
        elif how == "downwards":
            rows[:, 0] = number - 1 - rows[:, 0]
        elif how == "the last backwards":
            rows[last] = rows[last[::-1]]
        elif how == "the last later":
            rows[last, 1] += 0 if len(last) == 1 else 2
        else:
            rows = np.delete(rows, last[:1] if len(last) > 1 else [], axis=0)
        return rows

    ios = [
        [nnet3.IoSpecification(io.name, changed(io.indexes), io.has_deriv) for io in each]
        for each in (request.inputs, request.outputs)
    ]
    return nnet3.ComputationRequest(*ios, request.need_model_derivative)


@pytest.mark.parametrize(
    "how", ["far apart", "downwards", "the last later", *at_night("from 3", "the last backwards", "the last shorter")]
)
def test_sequences_that_are_not_alike_spoil_nothing(how: str) -> None:
    nnet, cache = nnet3.Nnet.from_config(TDNN, seed=1), CheckingCache()
    for frames, sequences in ((50, 6), (40, 6), (45, 8), (38, 5)):
        cache.compile(nnet, _other(request_for(nnet, frames, sequences), how))
        cache.compile(nnet, request_for(nnet, frames, sequences))


@nightly
@needs_shared
@pytest.mark.parametrize(("name", "train"), [("tdnnf_small", True), *at_night(("tdnn_lstm", False))])
def test_published_networks(name: str, train: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN / "bench" / name)
    nnet, cache = nnet3.Nnet.from_config_file(str(Path("final.config"))), CheckingCache()
    for frames, sequences in ((40, 7), (30, 7), (35, MANY), (33, 2)):
        cache.compile(nnet, request_for(nnet, frames, sequences, step=3, margin=40, train=train))
    assert cache.counts.continued >= 2


def test_lone_samples_and_few_frames_are_had_for_all_numbers() -> None:
    x = cn.input("x", 3)
    for samples in (False, True):
        cache = CheckingCache()
        network = cn.Network(cn.square_error(cn.tanh(x), cn.delay(x, 2, dim=3)), cache=cache)
        for number in (64, 17, 6, 100):
            value = np.ones((3, number)) if samples else cn.sequences([np.ones((3, 5))] * number)
            network.gradients({"x": value})
        assert counts_of(cache) == (1, 3)


def test_most_computational_networks_are_continued() -> None:
    """A recurrent network with a delay."""
    lstm = cn.macros.lstm(cn.input("x", 3), 4)
    cache = CheckingCache()
    network = cn.Network(cn.square_error(lstm.h, cn.delay(lstm.h, 2, dim=4)), cache=cache)
    for frames, number in ((40, 7), (30, 7), (20, 5), (50, MANY)):
        network.gradients({"x": cn.sequences([np.ones((3, frames))] * number)})
    assert cache.counts.compiled <= 1
