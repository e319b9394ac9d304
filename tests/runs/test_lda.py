"""The LDA-like transform that an xconfig lacks is estimated before a run begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnet3 import load_nnet
from nnet3.errors import Nnet3Error
from nnet3.kaldi_io import Writer, load_matrix
from tests.effort import at_night
from tests.road_case import relative_error, run_good
from tests.runs.task import Task
from tests.runs.thread_group import run_in_threads

XCONFIG = """
input name=input dim=5
fixed-affine-layer name=lda input=Append(-1,0,1) affine-transform-file={path}
relu-batchnorm-layer name=tdnn1 dim=8
output-layer name=output dim=3
"""


@pytest.fixture
def lda_task(task: Task) -> Task:
    network = task.folder / "net.xconfig"
    network.write_text(XCONFIG.format(path=task.folder / "configs" / "lda.mat"))
    task.change(model__file=f'"{network}"', training__epochs=1)
    return task


def _of_verbs(task: Task, options: str = "") -> np.ndarray:
    """Returns the transform that Kaldi's programs make."""
    folder = task.folder
    run_good(f"nnet3 xconfig-to-configs --xconfig-file {folder}/net.xconfig --config-dir {folder}/made")
    run_good(f"nnet3-acc-lda-stats {folder}/made/init.raw ark:{folder}/train.ark {folder}/lda.acc")
    run_good(f"nnet-get-feature-transform {options} {folder}/made/lda.mat {folder}/lda.acc")
    return load_matrix(folder / "made" / "lda.mat")


def _linear(path: Path) -> np.ndarray:
    component: Any = load_nnet(path).components["lda"]
    return component.linear_params.numpy()  # type: ignore[no-any-return]


def _check_same(matrix: np.ndarray, expected: np.ndarray) -> None:
    """Two rows, one less than classes, are more than any basis; statistics in files are float32."""
    ours, theirs = (each[:, :-1].T @ each[:, :-1] for each in (matrix, expected))
    assert relative_error(ours, theirs) < 1e-5
    assert relative_error(np.abs(matrix[:2]), np.abs(expected[:2])) < 1e-5


def test_it_is_what_the_verbs_make(lda_task: Task) -> None:
    expected = _of_verbs(lda_task)
    assert lda_task.run() == 0
    matrix = load_matrix(lda_task.exp / "lda.mat")
    _check_same(matrix, expected)
    np.testing.assert_array_equal(_linear(lda_task.exp / "final.raw"), matrix[:, :-1])
    assert [event["estimated"] for event in lda_task.events("lda")] == [f"{lda_task.folder}/configs/lda.mat"]
    assert not (lda_task.folder / "configs").exists()


@pytest.mark.parametrize("size", [3, *at_night(2)])
def test_processes_begin_with_one_transform(lda_task: Task, size: int) -> None:
    """The first one estimates it for all, of all examples, not of its part."""
    lda_task.use_folder("alone")
    assert lda_task.run() == 0
    lda_task.use_folder("together")
    assert run_in_threads(lda_task, size) == [0] * size
    assert (lda_task.exp / "lda.mat").read_bytes() == (lda_task.folder / "alone" / "lda.mat").read_bytes()
    matrix = load_matrix(lda_task.exp / "lda.mat")
    np.testing.assert_array_equal(_linear(lda_task.exp / "final.raw"), matrix[:, :-1])
    assert len(lda_task.events("lda")) == 1
    lda_task.change(lda__examples=1)
    path = lda_task.folder / "net.xconfig"
    path.write_text(path.read_text().replace(".mat", ".mat dim=16"))
    lda_task.use_folder("failed")
    assert any("cannot be estimated" in str(end) for end in run_in_threads(lda_task, size))


def test_keys_are_those_of_the_verbs(lda_task: Task) -> None:
    expected = _of_verbs(lda_task, "--within-class-factor=0.5 --max-singular-value=0.3")
    lda_task.change(lda__within_class_factor=0.5, lda__max_singular_value=0.3)
    lda_task.run()
    _check_same(load_matrix(lda_task.exp / "lda.mat"), expected)


def test_a_run_goes_on_with_the_transform_that_it_began_with(lda_task: Task) -> None:
    lda_task.use_folder("whole")
    lda_task.run()
    whole = lda_task.final
    lda_task.use_folder("parts")
    lda_task.run()
    for path in sorted((lda_task.exp / "checkpoints").iterdir())[-1:]:
        assert path.is_dir()
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    (lda_task.exp / "final.raw").unlink()
    lda_task.change(lda__examples=5)  # nothing is estimated again
    assert lda_task.run(resume=True) == 0
    assert lda_task.final == whole
    writer = Writer.of_file(True)
    writer.matrix(load_matrix(lda_task.exp / "lda.mat") * 2)
    writer.write_to(lda_task.exp / "lda.mat")
    with pytest.raises(Nnet3Error, match=r"model\..*lda.mat: was"):
        lda_task.run(resume=True)


def test_a_file_and_the_identity_are_left_alone(lda_task: Task) -> None:
    lda_task.change(lda__estimate="false")
    lda_task.run()
    np.testing.assert_array_equal(_linear(lda_task.exp / "final.raw"), np.eye(15))
    (lda_task.folder / "configs").mkdir()
    matrix = np.arange(240, dtype=np.float32).reshape(15, 16) / 240
    writer = Writer.of_file(True)
    writer.matrix(matrix)
    writer.write_to(lda_task.folder / "configs" / "lda.mat")
    lda_task.change(lda__estimate="true")
    lda_task.use_folder("given")
    lda_task.run()
    np.testing.assert_array_equal(_linear(lda_task.exp / "final.raw"), matrix[:, :-1])
    assert not (lda_task.exp / "lda.mat").exists()


def test_tables_of_different_outputs_have_classes_of_their_own(lda_task: Task) -> None:
    path = lda_task.folder / "net.xconfig"
    path.write_text(path.read_text() + "output-layer name=output-b input=tdnn1 dim=3\n")
    table = f"ark:{lda_task.folder}/train.ark"
    lda_task.change(
        data__train=f'["{table}", "{table}"]', data__train_outputs='["output", "output-b"]', combination__models=0
    )
    lda_task.run()
    twice = load_matrix(lda_task.exp / "lda.mat")
    lda_task.change(data__train=f'"{table}"', data__train_outputs="[]")
    lda_task.use_folder("once")
    lda_task.run()
    _check_same(load_matrix(lda_task.exp / "lda.mat"), twice)


def test_what_cannot_be_estimated_is_one_error(lda_task: Task) -> None:
    lda_task.change(lda__examples=1)
    path = lda_task.folder / "net.xconfig"
    path.write_text(path.read_text().replace(".mat", ".mat dim=16"))
    with pytest.raises(Nnet3Error, match=r"lda.mat' cannot be estimated: dim must be .* 15.*; give the file, or say"):
        lda_task.run()


def test_chain_examples_give_pdfs(task: Task) -> None:
    task.use("chain")
    chain = (
        "output-layer name=output include-log-softmax=false dim=6\noutput-layer name=output-xent input=tdnn1 dim=6\n"
    )
    xconfig = (
        XCONFIG.format(path="lda.mat").replace("dim=5", "dim=4").replace("output-layer name=output dim=3\n", chain)
    )
    (task.folder / "net.xconfig").write_text(xconfig)
    task.change(model__file=f'"{task.folder}/net.xconfig"', training__epochs=1)
    task.run()
    assert load_matrix(task.exp / "lda.mat").shape == (12, 13)
