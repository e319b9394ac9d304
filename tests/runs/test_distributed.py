"""Two processes of torchrun: one that dies costs nothing, what one must skip is reported.

That together they do what one does is tested with threads, in test_training_run.py and in test_objectives.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.effort import nightly
from tests.runs.task import Task
from tests.runs.thread_group import run_in_threads
from tests.torchrun import torchrun


def _torchrun(task: Task, programs: Path, program: str = "nnet3") -> str:
    task.change(distributed__check="true")
    return torchrun(programs, program, "train-model", "--resume", task.settings)


@nightly
@pytest.mark.parametrize(("mode", "jobs"), [("averaging", 4), ("all-reduce", 0), ("averaging", 0)])
def test_a_process_that_dies_is_started_again_and_the_run_goes_on(
    task: Task, programs: Path, mode: str, jobs: int
) -> None:
    task.change(distributed__mode=f'"{mode}"', distributed__round=5, data__minibatch_size=4)
    task.change(distributed__num_jobs_initial=jobs, distributed__num_jobs_final=2 * jobs)
    task.use_folder("undisturbed")
    assert run_in_threads(task) == [0, 0]
    expected = task.final
    assert task.events("valid")[-1]["accuracy"] > 0.6
    task.use_folder("disturbed")
    said = _torchrun(task, programs, "nnet3-dying-in-training").splitlines()
    assert [line for line in said if "lost" in line or "Traceback" in line] == [
        "nnet3: process 0 of 2 has lost the others: one of them has ended, see what it said, or did not come in time "
        "([distributed] timeout). Started again with --resume (in Python: resume=True) training goes on from the last "
        "checkpoint; torchrun --max-restarts=3 does that by itself"
    ]
    assert [event["step"] for event in task.events("resume")] == [12]
    assert task.final == expected


@nightly
def test_processes_with_fewer_rows_than_a_matrix_has_columns_keep_in_step(task: Task, programs: Path) -> None:
    """Minibatches of 16 examples of 4 frames, and in the end of 2: more rows than 40, and fewer."""
    config = (
        (task.folder / "net.config").read_text().replace("output-dim=8", "output-dim=40").replace("dim=8", "dim=40")
    )
    (task.folder / "net.config").write_text(config)
    task.write_examples(task.folder / "train.ark", 100, 1)
    task.change(data__minibatch_size='"1:16"', training__momentum=0.5)
    _torchrun(task, programs)
    assert [event["step"] for event in task.events("epoch")] == [4, 8, 12]


def test_what_one_process_must_skip_is_skipped_by_all_and_reported_by_the_one_that_writes(
    task: Task, programs: Path
) -> None:
    task.spoil("train.ark", {"example-17"})
    task.change(training__epochs=1, data__minibatch_size='"1:8"')
    _torchrun(task, programs)
    skips = task.events("skip")
    assert [event["process"] for event in skips] == [0, 1]
    (bad,) = [event for event in skips if "example-17" in event["keys"]]
    assert "NaN" in bad["reason"] or "finite" in bad["reason"]
    assert task.events("epoch")[0]["objective"] < 0
