"""Scheduler: work side by side gives what it gives alone, and what fails or is dropped disturbs nobody."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nnet3.asr import Model, Recognizer
from nnet3.errors import ExecutionError, NumericalError
from nnet3.speech.serve.scheduler import Scheduler, Work
from tests.asr.small_recognizer import PIECE, RATE, audio, write_recognizer
from tests.patience import PATIENCE

AUDIO = audio(2.0)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(write_recognizer(tmp_path_factory.mktemp("model") / "small"))


def hear(recognizer: Recognizer, part: np.ndarray) -> Work[str]:
    return ((yield from recognizer.steps(part)) and recognizer.Result()) or recognizer.PartialResult()


def finish(recognizer: Recognizer) -> Work[str]:
    yield from ()
    return recognizer.FinalResult()


@settings(max_examples=3)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([PIECE, PIECE, 3 * PIECE, 501, 0])), max_size=20))
@pytest.mark.parametrize("threads", [1, 3])
def test_interleaved_work_gives_what_it_gives_alone(model: Model, threads: int, turns: list[tuple[int, int]]) -> None:
    """Four speakers, each with some parts of the recording, in any order; several parts of one are done in order."""
    computer = model.computer(4)
    together = [Recognizer(model, RATE, computer=computer) for _ in range(4)]
    single = [Recognizer(model, RATE) for _ in range(4)]
    place = [0, 200, 400, 600]
    futures, expected = [], []
    with Scheduler(threads) as scheduler:
        last: dict[int, Any] = {}
        for speaker, length in turns:
            part = AUDIO[place[speaker] : place[speaker] + length]
            place[speaker] += length
            if speaker in last:
                last[speaker].result(PATIENCE)  # one message at a time
            last[speaker] = scheduler.submit(hear(together[speaker], part))
            futures.append(last[speaker])
            expected.append(
                single[speaker].Result() if single[speaker].accept(part) else single[speaker].PartialResult()
            )
        assert [future.result(PATIENCE) for future in futures] == expected
        ends = [scheduler.submit(finish(each)) for each in together]
        assert [end.result(PATIENCE) for end in ends] == [each.FinalResult() for each in single]


def test_a_run_of_the_network_has_all_who_wait(model: Model) -> None:
    """Work that was submitted while a round was held up comes into the next one together."""
    computer, widths = model.computer(5), list[int]()
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> Iterator[Any]:
        begun.set()
        go_on.wait(PATIENCE)
        yield from ()

    with Scheduler(2, widths.append) as scheduler:
        scheduler.submit(hold())  # type: ignore[arg-type]
        assert begun.wait(PATIENCE)
        recognizers = [Recognizer(model, RATE, computer=computer) for _ in range(5)]
        futures = [scheduler.submit(hear(each, AUDIO[: 3 * PIECE])) for each in recognizers]
        go_on.set()
        assert len({future.result(PATIENCE) for future in futures}) == 1
    assert widths == [5, 5, 5]


def loud(recognizer: Recognizer, part: np.ndarray) -> Work[str]:
    """Work whose frames are too large for the network."""
    steps = recognizer.steps(part)
    scores = None
    while True:
        inputs = next(steps) if scores is None else steps.send(scores)
        scores = yield inputs._replace(frames=np.full_like(inputs.frames, 3e38))


def failing() -> Work[str]:
    yield from ()
    raise KeyError("a bug")


def test_what_fails_does_not_disturb_others(model: Model) -> None:
    computer = model.computer(4)
    good, bad, over = (Recognizer(model, RATE, computer=computer) for _ in range(3))
    over.accept(AUDIO[:PIECE])
    lost = hear(over, AUDIO[PIECE:])
    first = next(lost)
    first.stream.close()

    def stale() -> Work[str]:
        yield first
        return "not reached"

    with Scheduler(2) as scheduler:
        works = [hear(good, AUDIO), loud(bad, AUDIO), stale(), failing()]
        futures = [scheduler.submit(work) for work in works]
        errors = [future.exception(PATIENCE) for future in futures]
        assert [type(error) for error in errors] == [type(None), NumericalError, ExecutionError, KeyError]
        single = Recognizer(model, RATE)
        assert futures[0].result() == ((single.accept(AUDIO) and single.Result()) or single.PartialResult())
        again = Recognizer(model, RATE, computer=computer)
        assert scheduler.submit(hear(again, AUDIO)).result(PATIENCE) == futures[0].result()


def test_work_that_nobody_wants_is_dropped(model: Model) -> None:
    recognizer = Recognizer(model, RATE)
    pieces, dropped, hold = [], threading.Event(), threading.Event()

    def work() -> Work[str]:
        try:
            for inputs in recognizer.steps(AUDIO):
                pieces.append(inputs)
                future.cancel()
                hold.set()
                yield inputs
            return "not reached"
        finally:
            dropped.set()

    with Scheduler() as scheduler:
        future = scheduler.submit(work())
        assert dropped.wait(PATIENCE)
    assert hold.is_set()
    assert len(pieces) == 1
    assert not scheduler.is_alive
    with pytest.raises(ExecutionError, match="the scheduler has ended"):
        scheduler.submit(work())
