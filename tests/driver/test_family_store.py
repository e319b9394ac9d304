"""FamilyStore: a cache compiles few lengths of a series, and what it continues is what would be compiled."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3.engine.driver import family_store as family_shelf
from nnet3.engine.driver.cache_file import num_bytes
from nnet3.engine.families.continued import Continued, NotAffineError, continued
from nnet3.engine.families.family import ProgramFamily
from nnet3.engine.families.number_table import NumberTable
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering.sweeps import Sweeps
from nnet3.model.requests.request_series import RequestSeries
from tests.effort import at_night
from tests.families.networks import (
    BLSTM,
    FAILING,
    POOLING,
    TDNN,
    compiled,
    request_for,
    same_program,
    same_program_or_results,
)

RNN = """
    input-node name=input dim=3
    component name=w type=NaturalGradientAffineComponent input-dim=7 output-dim=4
    component name=s type=SigmoidComponent dim=4
    component-node name=w component=w input=Append(input, IfDefined(Offset(s, -1)))
    component-node name=s component=s input=w
    output-node name=output input=s
"""

WINDOW = "input-node name=input dim=3\noutput-node name=output input=Sum(input, IfDefined(Offset(input, -100)))"


def test_all_lengths_but_the_first_are_continued() -> None:
    nnet, cache = nnet3.Nnet.from_config(RNN), nnet3.ComputationCache()
    found = []
    for frames in (30, 40, 31, 30, 200, 57):
        request = request_for(nnet, frames, train=True)
        program = cache.compile(nnet, request)
        assert same_program(program, compiled(nnet, request))
        counts = cache.counts
        found.append((counts.compiled, counts.continued, counts.found))
    assert found == [(1, 0, 0), (1, 1, 0), (1, 2, 0), (1, 2, 1), (1, 3, 1), (1, 4, 1)]


def test_families_that_were_used_last_are_found_without_a_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the indexes alone: not for others, nor with other options, nor for those that are too short."""
    nnet, cache, asked = nnet3.Nnet.from_config(RNN), nnet3.ComputationCache(), list[int]()
    of = RequestSeries.by_length
    monkeypatch.setattr(RequestSeries, "by_length", lambda self: asked.append(len(self.request.rows[-1])) or of(self))  # type: ignore[func-returns-value]
    unoptimized = nnet3.CompileOptions(optimize=False)
    for frames, sequences, options in (
        *((40, 1, None), (50, 1, None), (60, 1, None), (200, 1, None), (60, 2, None), (70, 1, None), (7, 1, None)),
        *((50, 2, None), (40, 2, None), (80, 2, None), (90, 1, None), (80, 1, unoptimized), (90, 1, unoptimized)),
    ):
        request = request_for(nnet, frames, sequences, train=True)
        if (frames, sequences) == (90, 1):  # other rows of the same number
            last = nnet3.IoSpecification("output", request.outputs[0].indexes[::-1], has_deriv=True)
            request = nnet3.ComputationRequest(request.inputs, [last], need_model_derivative=True)
        program = cache.compile(nnet, request, options)
        assert same_program(program, compiled(nnet, request, options))
    assert {60, 200, 70, 100, 160}.isdisjoint(asked)
    assert set(asked) == {40, 50, 120, 7, 90, 80}


_PERIODS = (1, 3, *at_night(5, 17), 60)  # beyond the first length


@pytest.mark.parametrize(
    ("config", "step", "alone"), [(RNN, 1, 1), (BLSTM, 3, 1), (TDNN, 1, 1), (POOLING, 5, 1), (WINDOW, 1, len(_PERIODS))]
)
def test_members_far_beyond_what_was_compiled(config: str, step: int, alone: int) -> None:
    """The window of 100 frames is none of 64 periods: from one length to the next, programs are compared."""
    nnet, cache = nnet3.Nnet.from_config(config), nnet3.ComputationCache()
    fewest = 120 if config is POOLING else 24
    for k in _PERIODS:
        request = request_for(nnet, fewest + k * step, 2, train=True)
        assert same_program(cache.compile(nnet, request), compiled(nnet, request))
    assert cache.counts.compiled == alone
    assert cache.counts.continued == len(_PERIODS) - alone


@pytest.mark.parametrize("frames", [(20, 30, 64), (24, 26, 90)])
def test_rows_that_overlap_in_long_programs_alone(frames: tuple[int, ...]) -> None:
    """A derivative is added to rows 12 frames before, of the matrix that it lies in: in few frames they are apart."""
    nnet, cache = nnet3.Nnet.from_config(FAILING, seed=1), nnet3.ComputationCache()
    for length in frames:
        request = request_for(nnet, length, 3, margin=4, train=True, by_time=False)
        assert same_program(cache.compile(nnet, request), compiled(nnet, request))
    assert cache.counts.continued == 1
    assert not cache.refusals


def test_long_recurrences_are_not_compiled_for_their_length() -> None:
    nnet, cache = nnet3.Nnet.from_config(RNN), nnet3.ComputationCache()
    request = request_for(nnet, 150, train=True)
    options = nnet3.CompileOptions(check=True)
    assert same_program(cache.compile(nnet, request, options), compiled(nnet, request))
    assert (cache.counts.continued, cache.counts.compiled) == (1, 0)


def test_iterations_of_a_recurrence_share_tables() -> None:
    """Each iteration of the backward recurrence, which goes three frames at once, copies the ivector by the same
    table."""
    config = BLSTM.replace("input dim=3", "input dim=1\n    input-node name=ivector dim=2").replace(
        "Append(input, IfDefined", "Append(input, ReplaceIndex(ivector, t, 0), IfDefined"
    )
    nnet, cache = nnet3.Nnet.from_config(config, seed=1), nnet3.ComputationCache()
    for frames in (90, 120):
        request = request_for(nnet, frames, 2, train=True)
        assert same_program_or_results(nnet, request, cache.compile(nnet, request), compiled(nnet, request))
    assert (cache.counts.continued, cache.refusals) == (1, [])


def test_what_is_too_short_for_a_proof_is_compared() -> None:
    """The shortest member that tells of two windows of 15 frames has 31 frames."""
    config = WINDOW.replace("-100", "-15").replace("Sum(input", "Sum(Offset(input, 15)")
    nnet, cache = nnet3.Nnet.from_config(config), nnet3.ComputationCache()
    for frames in (60, 40, 29, 22, 28, 100):
        request = request_for(nnet, frames, train=True)
        assert same_program(cache.compile(nnet, request), compiled(nnet, request))
    assert cache.refusals == []
    assert (cache.counts.continued, cache.counts.compiled) == (4, 2)


def test_a_family_ends_where_programs_become_others() -> None:
    """From 140 frames on the window reaches what is given."""
    nnet, cache = nnet3.Nnet.from_config(WINDOW), nnet3.ComputationCache()
    for frames in (50, 30, 40, 300, 250, 45):
        request = request_for(nnet, frames)
        assert same_program(cache.compile(nnet, request), compiled(nnet, request))
        if frames >= 250:
            assert cache.counts.continued == 2
    assert cache.refusals[0].startswith("a longer program is not what the short ones promise")


def test_other_sequences_other_options_and_other_networks_have_families_of_their_own() -> None:
    nnet, cache = nnet3.Nnet.from_config(TDNN), nnet3.ComputationCache()
    for options in (nnet3.CompileOptions(), nnet3.CompileOptions(optimize=False)):
        for sequences in (1, 3):
            for frames in (40, 30):
                cache.compile(nnet, request_for(nnet, frames, sequences), options)
    assert cache.counts.compiled == cache.counts.continued == 4
    nnet.components["n"].test_mode = True
    for frames in (60, 50):
        request = request_for(nnet, frames)
        assert same_program(cache.compile(nnet, request), compiled(nnet, request))
    assert cache.counts.compiled == cache.counts.continued == 5


def test_rows_in_another_order_are_compiled() -> None:
    """A request that is no member of the family, though it begins like one."""
    nnet, cache = nnet3.Nnet.from_config(RNN), nnet3.ComputationCache()
    for frames in (60, 40):
        cache.compile(nnet, request_for(nnet, frames))
    request = request_for(nnet, 50)
    rows = request.outputs[0].indexes.copy()
    rows[[20, 30]] = rows[[30, 20]]
    moved = nnet3.ComputationRequest(request.inputs, [nnet3.IoSpecification("output", rows)])
    program = cache.compile(nnet, moved)
    assert (cache.counts.continued, cache.counts.compiled) == (2, 1)
    assert same_program(program, compiled(nnet, moved))


def test_derivative_times_go_with_the_end() -> None:
    nnet, cache = nnet3.Nnet.from_config(RNN), nnet3.ComputationCache()
    options = nnet3.CompileOptions(min_deriv_time=5, max_deriv_time_relative=-3)
    for frames in (90, 40, 60):
        request = request_for(nnet, frames, train=True)
        assert same_program(cache.compile(nnet, request, options), compiled(nnet, request, options))
    assert cache.counts.continued == 3


def test_short_requests_are_compiled() -> None:
    nnet, cache = nnet3.Nnet.from_config(RNN), nnet3.ComputationCache()
    for frames in range(1, 10):
        cache.compile(nnet, request_for(nnet, frames))
    assert cache.counts.compiled == 9


def test_a_promise_that_is_not_kept_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of the first length disagrees with what short ones promise: all are compiled."""

    def check(family: ProgramFamily, k: int, program: NnetComputation) -> None:
        raise NotAffineError("one number is another")

    monkeypatch.setattr(ProgramFamily, "check", check)
    nnet, cache = nnet3.Nnet.from_config(WINDOW), nnet3.ComputationCache()
    for frames in (93, 92, 91, 90):
        request = request_for(nnet, frames)
        assert same_program(cache.compile(nnet, request), compiled(nnet, request))
    assert cache.counts.compiled == 4
    assert cache.refusals[0] == "a longer program is not what the short ones promise (one number is another)"


def test_a_program_that_does_not_continue_the_shortest_has_no_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that continues a longer one: all are compiled."""

    def found(members: Sequence[Sequence[NumberTable]], apart: int = 1) -> Continued:
        if apart > 1:
            raise NotAffineError("one number is another")
        return continued(members)

    monkeypatch.setattr("nnet3.engine.families.family.continued", found)
    nnet, cache = nnet3.Nnet.from_config(TDNN), nnet3.ComputationCache()
    for frames in (93, 92, 91, 90):
        request = request_for(nnet, frames)
        assert same_program(cache.compile(nnet, request), compiled(nnet, request))
    assert cache.counts.compiled == 4
    assert cache.refusals == ["commands: one number is another"]


def test_what_is_precomputed_follows_the_network_that_asks() -> None:
    """Boundaries of truncation lie at absolute times, which go on."""
    config = BLSTM.replace("IfDefined(Offset(fc, -1))", "IfDefined(Offset(fct, -1))")
    config += """
    component name=t type=BackpropTruncationComponent dim=4 zeroing-interval=7 recurrence-interval=1
    component-node name=fct component=t input=fc
    """
    cache = nnet3.ComputationCache()
    for frames in (100, 49):
        nnet = nnet3.Nnet.from_config(config)
        request = request_for(nnet, frames, train=True)
        program = cache.compile(nnet, request)
        exact = compiled(nnet, request)
        assert same_program(program, exact)
        times = [entry["time"] for entry in program.precomputed if entry]
        assert len(set(np.concatenate(times).tolist())) >= frames
    assert cache.counts.continued == 1


def test_clearing_forgets_families() -> None:
    nnet, cache = nnet3.Nnet.from_config(TDNN), nnet3.ComputationCache()
    for frames in (60, 40):
        cache.compile(nnet, request_for(nnet, frames))
    cache.clear()
    cache.compile(nnet, request_for(nnet, 50))
    assert (cache.counts.continued, cache.counts.compiled) == (1, 2)


def of_lengths(*lengths: int) -> nnet3.ComputationRequest:
    """A request of RNN for sequences of these lengths."""
    rows = np.array([(n, t, 0) for n, length in enumerate(lengths) for t in range(length)])
    return nnet3.ComputationRequest([nnet3.IoSpecification("input", rows)], [nnet3.IoSpecification("output", rows)])


@pytest.mark.parametrize(
    "lengths", [[(50, 45), (40, 40), (39, 39), (38, 38)], [(40, 40), (35, 35), (60, 45), (34, 34)]]
)
def test_sequences_of_unequal_lengths_do_not_spoil_the_family_of_others(lengths: list[tuple[int, int]]) -> None:
    """Cut to the shortest length they are equal."""
    nnet, cache = nnet3.Nnet.from_config(RNN), nnet3.ComputationCache()
    for each in lengths:
        request = of_lengths(*each)
        one, other = cache.compile(nnet, request), compiled(nnet, request)
        assert same_program_or_results(nnet, request, one, other) if len(set(each)) > 1 else same_program(one, other)
    assert cache.counts.restricted == 1
    assert cache.counts.continued >= 3
    assert cache.refusals == []


def test_an_input_that_is_shorter_than_what_is_cut_off() -> None:
    """Cut to the shortest length it is whole, and at a length between it is not."""
    config = RNN.replace("Append(input,", "Append(Sum(input, IfDefined(Offset(input, -20))),")
    config += "input-node name=other dim=3\n"
    nnet, cache = nnet3.Nnet.from_config(config), nnet3.ComputationCache()
    for frames in (100, 90, 130):
        rows = np.array([(0, t, 0) for t in range(frames)])
        ios = [nnet3.IoSpecification(name, rows) for name in ("input", "output")]
        other = nnet3.IoSpecification("other", rows[:61])
        request = nnet3.ComputationRequest([ios[0], other], ios[1:])
        assert same_program(cache.compile(nnet, request), compiled(nnet, request))
    assert (cache.counts.continued, cache.counts.compiled) == (1, 2)


def test_times_with_a_wide_gap() -> None:
    """As members of a family they would have a row for each time."""
    config = "input-node name=input dim=3\noutput-node name=output input=input"
    nnet, cache = nnet3.Nnet.from_config(config), nnet3.ComputationCache()
    for far in (10**9, 9 * 10**8, 8 * 10**8):
        rows = np.array([(0, t, 0) for t in (*range(21), far)])
        request = nnet3.ComputationRequest(
            [nnet3.IoSpecification("input", rows)], [nnet3.IoSpecification("output", rows)]
        )
        assert same_program(cache.compile(nnet, request), compiled(nnet, request))
    assert cache.counts.compiled == 3


def test_programs_that_the_cache_has_dropped_are_not_kept() -> None:
    nnet, cache = nnet3.Nnet.from_config(WINDOW), nnet3.ComputationCache(max_bytes=0)
    for frames in (60, 40, 50):
        dropped = weakref.ref(cache.compile(nnet, request_for(nnet, frames)))
        gc.collect()
        assert dropped() is None
    assert cache.counts.compiled == 3
    kept = cache.compile(nnet, request_for(nnet, 45))
    assert same_program(cache.compile(nnet, request_for(nnet, 40)), compiled(nnet, request_for(nnet, 40)))
    assert kept is not None
    assert cache.counts.continued == 1


def test_networks_are_not_kept() -> None:
    nnet, cache = nnet3.Nnet.from_config(TDNN), nnet3.ComputationCache()
    for frames in (60, 40):
        cache.compile(nnet, request_for(nnet, frames))
    assert cache.counts.continued == 1
    network = weakref.ref(nnet)
    del nnet
    gc.collect()
    assert network() is None


def test_the_family_that_was_not_used_for_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family_shelf, "_MOST_RECORDS", 6)
    nnet, cache = nnet3.Nnet.from_config(TDNN), nnet3.ComputationCache()
    for sequences in (2, 1):
        for frames in (40, 39):
            cache.compile(nnet, request_for(nnet, frames, sequences))
    for number in range(3):
        cache.compile(nnet, request_for(nnet, 40, 5 + number))
        cache.compile(nnet, request_for(nnet, 38 - number, 1))
    assert (cache.counts.continued, cache.counts.compiled) == (5, 5)


def test_what_is_continued_takes_no_more_memory() -> None:
    nnet, cache = nnet3.Nnet.from_config(TDNN), nnet3.ComputationCache()
    for frames in (50, 40):
        request = request_for(nnet, frames, 16, train=True)
        program = cache.compile(nnet, request)
    assert cache.counts.continued == 1
    assert num_bytes(program) <= num_bytes(compiled(nnet, request))


def test_threads_share_families() -> None:
    nnets, cache = [nnet3.Nnet.from_config(RNN), nnet3.Nnet.from_config(WINDOW)], nnet3.ComputationCache()
    asked = [(nnet, request_for(nnet, frames)) for frames in (60, 40, 39, 38, 61, 37) for nnet in nnets]
    cases = [(nnet, request, compiled(nnet, request)) for nnet, request in asked]
    wrong = []

    def work(first: int) -> None:
        for nnet, request, exact in (*cases[first:], *cases[:first]):
            if not same_program(cache.compile(nnet, request), exact):
                wrong.append(str(request))
            if first == 3:
                cache.clear()

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert cache.counts.continued > 0


def test_files_hold_the_members_of_families(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A family is a few files, however many lengths there are, and nothing is compiled where they are."""
    nnet, cache = nnet3.Nnet.from_config(RNN), nnet3.ComputationCache(tmp_path / "programs")
    requests = [request_for(nnet, frames, train=True) for frames in (60, 40, 50, 70, 45)]
    exact = [compiled(nnet, request) for request in requests]
    for request in requests[:3]:
        cache.compile(nnet, request)
    files = sorted((tmp_path / "programs").iterdir())
    cache.compile(nnet, requests[3])
    assert sorted((tmp_path / "programs").iterdir()) == files
    assert len(files) <= 4
    cache.save(tmp_path / "all")
    other, loaded = nnet3.ComputationCache(tmp_path / "programs"), nnet3.ComputationCache()
    loaded.load(tmp_path / "all")
    monkeypatch.setattr("nnet3.engine.driver.task.lower", None)
    for each in (other, loaded):
        for request, program in zip(requests, exact, strict=True):
            assert same_program(each.compile(nnet, request), program)
        assert (each.counts.compiled, each.counts.continued) == (0, 5)


def test_only_the_last_lengths_are_kept_in_memory() -> None:
    nnet, cache = nnet3.Nnet.from_config(RNN), nnet3.ComputationCache()
    cache.compile(nnet, request_for(nnet, 60))
    kept = [weakref.ref(cache.compile(nnet, request_for(nnet, frames))) for frames in range(100, 160)]
    assert 0 < sum(program() is not None for program in kept) < 40
    assert kept[-1]() is cache.compile(nnet, request_for(nnet, 159))
    cache.max_bytes = 2 * cache.num_bytes // 3
    cache.compile(nnet, request_for(nnet, 200))
    assert 0 < cache.num_bytes <= cache.max_bytes


def test_rows_at_the_edge_of_time_that_nobody_needs_hinder_no_family() -> None:
    """The peepholes of an LSTM take what there is of the state before; how far that goes nobody asks."""
    nnet = nnet3.Nnet.from_xconfig("""
        input dim=5 name=input
        lstm-layer name=lstm cell-dim=8 delay=-1
        output-layer name=output dim=3
    """)
    cache = nnet3.ComputationCache()
    for frames in (24, 20):
        request = request_for(nnet, frames, train=True)
        assert same_program(cache.compile(nnet, request), compiled(nnet, request))
    assert (cache.counts.compiled, cache.counts.continued) == (1, 1)


def test_the_sweeps_of_a_proof_serve_the_members_that_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    nnet, made, run = nnet3.Nnet.from_config(RNN), list[Sweeps](), Sweeps.run
    monkeypatch.delenv("NNET3_PROVE", raising=False)  # proofs lower the program of the length
    monkeypatch.setattr(Sweeps, "run", lambda self: made.append(self) or run(self))  # type: ignore[func-returns-value]
    assert any(nnet3.compile(nnet, request_for(nnet, 100)).repeats())
    assert len(made) == 2
