"""Which changes since a checkpoint are refused, allowed, or only warned of."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nnet3.errors import Nnet3Error, TrainingError
from nnet3.runs.continuing import check_same_everywhere, check_same_run, environment
from nnet3.runs.world import World
from tests.runs.thread_world import in_threads

FACTS: dict[str, dict[str, Any]] = {
    "settings": {"a": 1, "b": [1, 2], "none": None},
    "data": {"size": 10},
    "environment": {"processes": 2, "threads": 1, "torch": "2.0"},
}


def _changed(part: str, **values: Any) -> dict[str, dict[str, Any]]:
    return {**FACTS, part: {**FACTS[part], **values}}


def _check(now: dict[str, dict[str, Any]], allow_changes: bool = False) -> None:
    check_same_run("exp/5", FACTS, now, allow_changes)


def test_nothing_has_changed(caplog: pytest.LogCaptureFixture) -> None:
    _check(FACTS)
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (_changed("settings", a=2), "a: was 1, now 2"),
        (_changed("settings", b=[2, 1]), r"b: was \[1, 2\], now \[2, 1\]"),
        (_changed("settings", new="x"), 'new: was not there, now "x"'),
        (_changed("settings", new=None), "new: was not there, now null"),
        ({**FACTS, "settings": {"a": 1, "b": [1, 2]}}, "none: was null, now not there"),
        (_changed("data", size=9), "size: was 10, now 9"),
        (_changed("environment", processes=3), "number of processes: was 2, now 3"),
    ],
)
def test_what_is_refused_unless_it_is_allowed(
    now: dict[str, dict[str, Any]], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Nnet3Error, match=f"^exp/5: this run cannot go on as it began.*:\n  {message}\nchange it back"):
        _check(now)
    assert caplog.text == ""
    _check(now, allow_changes=True)
    assert "going on with what has changed" in caplog.text


def test_what_changes_only_the_last_bits_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    _check(_changed("environment", threads=4, torch="2.1"))
    assert "threads: was 1, now 4: results will not be the same to the last bit" in caplog.text
    assert 'torch: was "2.0", now "2.1": results' in caplog.text


def test_many_changes_are_cut() -> None:
    with pytest.raises(Nnet3Error) as error:
        _check(_changed("settings", **{f"key-{number:02}": number for number in range(12)}))
    assert [line.split(":")[0] for line in str(error.value).splitlines()[1:-1]] == [f"  key-{n:02}" for n in range(10)]


def test_environment() -> None:
    assert environment(3) == {"processes": 3, "threads": torch.get_num_threads(), "torch": torch.__version__}


def test_what_processes_begin_with_must_be_the_same() -> None:
    """Each one says so, and which process differs in what."""

    def begin(different: int) -> Any:
        def work(world: World) -> None:
            own = {"threads": 1, "size": 9 if world.rank == different else 10}
            check_same_everywhere(world, own)

        return work

    assert in_threads(3, begin(-1)) == [None, None, None]
    for different, others in ((0, "9 in process 0, 10 in process 1"), (2, "10 in process 0, 9 in process 2")):
        ends = in_threads(3, begin(different))
        assert [type(end) for end in ends] == [TrainingError] * 3
        assert {str(end) for end in ends} == {
            f"all processes must begin with the same settings, model and data, but size is {others}"
        }
