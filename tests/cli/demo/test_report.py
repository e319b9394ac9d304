"""The picture of the demo, as what is drawn where: losses, confusions, what was got wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnet3.cli.demo.report import TaskResult, write_report
from nnet3.cli.demo.task import DemoTask, RateSchedule
from tests.effort import at_night

pyplot = pytest.importorskip("matplotlib.pyplot")
colors = pytest.importorskip("matplotlib.colors")


def _task(num_examples: int, shape: tuple[int, int]) -> DemoTask:
    return DemoTask(
        name="tdnn",
        config="digits_tdnn.config",
        what="",
        schedule=RateSchedule(3, 0.1, 0.1),
        make_minibatches=lambda epoch: [],
        test_minibatches=[],
        judge=np.concatenate,
        labels=np.arange(num_examples) % 3,
        pictures=[np.full(shape, float(number)) for number in range(num_examples)],
        goal=0.9,
    )


def _result(wrong: int, num_examples: int = 30, shape: tuple[int, int] = (4, 4), minibatches: int = 120) -> TaskResult:
    """The first examples are taken for the digit behind theirs."""
    task = _task(num_examples, shape)
    decided = task.labels.copy()
    decided[:wrong] = (decided[:wrong] + 1) % 3
    losses = np.linspace(2.0, 0.5, minibatches)
    return TaskResult(task, losses, np.arange(1, minibatches + 1) / 40, np.eye(3)[decided], 0.75)


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Where the figure is kept that would have been closed."""
    closed: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(pyplot, "close", closed.append)
        yield closed
    for each in closed:
        pyplot.close(each)


def _drawn(results: list[TaskResult], folder: Path, figure: list[Any], *, writes: bool = False) -> Any:
    """The figure, which takes longer to write than to make."""
    with pytest.MonkeyPatch.context() as patch:
        if not writes:
            patch.setattr(pyplot.Figure, "savefig", lambda *_, **__: None)
        write_report(results, folder / "report.png", "Digits")
    (only,) = figure
    return only


def test_numbers_of_a_result() -> None:
    result = _result(wrong=3)
    assert result.predictions.tolist() == [1, 2, 0, *([0, 1, 2] * 9)]
    assert result.accuracy == 0.9


def test_one_row_for_each_network(tmp_path: Path, figure: list[Any]) -> None:
    drawn = _drawn([_result(wrong=3), _result(wrong=0)], tmp_path, figure, writes=True)
    assert drawn.get_suptitle() == "Digits"
    assert [row.get_suptitle() for row in drawn.subfigs] == [
        "TDNN: 90.0% of 30 test examples right",
        "TDNN: 100.0% of 30 test examples right",
    ]
    assert drawn.get_size_inches().tolist() == pytest.approx([15, 2 * 4.9 + 0.5])
    contents = (tmp_path / "report.png").read_bytes()
    assert contents.startswith(b"\x89PNG")
    width, height = (int.from_bytes(contents[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == pytest.approx((15 * 110, 10.3 * 110), abs=1)


def _parts(drawn: Any) -> list[Any]:
    (row,) = drawn.subfigs
    return list(row.subfigs)


def test_curves_show_the_losses_of_all_epochs(tmp_path: Path, figure: list[Any]) -> None:
    result = _result(wrong=3)
    left, _, _ = _parts(_drawn([result], tmp_path, figure))
    (axes,) = left.axes
    each, mean, test = axes.lines
    np.testing.assert_array_equal(each.get_xydata(), np.stack([result.epochs, result.losses], axis=1))
    np.testing.assert_allclose(mean.get_xdata(), result.epochs[1:])
    np.testing.assert_allclose(mean.get_ydata(), (result.losses[1:] + result.losses[:-1]) / 2)
    assert list(test.get_ydata()) == [0.75, 0.75]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["each minibatch", "mean of 2", "test: 0.750"]
    assert (axes.get_yscale(), axes.get_title()) == ("log", "Loss in training")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("epoch", "cross-entropy per label (nats)")
    assert [axes.spines[side].get_visible() for side in ("top", "right", "left")] == [False, False, True]
    assert each.get_alpha() < 1
    assert each.get_linewidth() < test.get_linewidth() < mean.get_linewidth()
    assert each.get_color() == mean.get_color() != test.get_color()
    assert (mean.get_linestyle(), test.get_linestyle()) == ("-", "--")
    assert not axes.get_legend().get_frame_on()


def test_few_losses_are_not_smoothed(tmp_path: Path, figure: list[Any]) -> None:
    result = _result(wrong=3, minibatches=59)
    left, _, _ = _parts(_drawn([result], tmp_path, figure))
    np.testing.assert_allclose(left.axes[0].lines[1].get_ydata(), result.losses)


def test_the_matrix_shows_shares_of_confusions(tmp_path: Path, figure: list[Any]) -> None:
    _, middle, _ = _parts(_drawn([_result(wrong=8)], tmp_path, figure))
    (axes,) = middle.axes
    (image,) = axes.images
    counts = np.array([[7, 3, 0], [0, 7, 3], [2, 0, 8]])
    np.testing.assert_allclose(image.get_array(), counts / 10)
    assert (image.get_clim(), image.get_cmap().name) == ((0, 1), "Blues")
    texts = {text.get_position(): text for text in axes.texts}
    assert {place: text.get_text() for place, text in texts.items()} == {
        (column, row): str(counts[row, column]) for row, column in zip(*np.nonzero(counts), strict=True)
    }
    assert colors.to_rgb(texts[0, 0].get_color()) == (1, 1, 1)
    assert sum(colors.to_rgb(texts[1, 0].get_color())) < 1
    assert (axes.get_xticks().tolist(), axes.get_yticks().tolist()) == ([0, 1, 2], [0, 1, 2])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("decided", "true digit")
    assert axes.get_title() == "Confusion matrix (counts)"
    assert {(text.get_ha(), text.get_va()) for text in axes.texts} == {("center", "center")}


def test_a_digit_that_nobody_has_is_no_division_by_zero(tmp_path: Path, figure: list[Any]) -> None:
    _, middle, _ = _parts(_drawn([_result(wrong=1, num_examples=2)], tmp_path, figure))
    np.testing.assert_array_equal(middle.axes[0].images[0].get_array(), [[0, 1, 0], [0, 1, 0], [0, 0, 0]])


def test_half_of_a_digit_is_written_dark(tmp_path: Path, figure: list[Any]) -> None:
    result = replace(_result(wrong=0), task=_task(4, (2, 2)), scores=np.eye(3)[[0, 1, 2, 1]])
    _, middle, _ = _parts(_drawn([result], tmp_path, figure))
    (half,) = (text for text in middle.axes[0].texts if text.get_position() == (0, 0))
    assert sum(colors.to_rgb(half.get_color())) < 1


@pytest.mark.parametrize(
    ("wrong", "shown", "shape", "aspect"),
    [(3, 3, (4, 4), 1.0), (20, 12, (4, 5), "auto"), *at_night((12, 12, (4, 3), 1.0))],
)
def test_what_was_wrong(
    tmp_path: Path, figure: list[Any], wrong: int, shown: int, shape: tuple[int, int], aspect: object
) -> None:
    _, _, right = _parts(_drawn([_result(wrong, shape=shape)], tmp_path, figure))
    assert right.get_suptitle() == f"Examples it got wrong ({shown} of {wrong})"
    assert len(right.axes) == 12
    assert not any(axes.axison for axes in right.axes)
    for number, axes in enumerate(right.axes):
        assert len(axes.images) == (number < shown)
        if number < shown:
            np.testing.assert_array_equal(axes.images[0].get_array(), np.full(shape, number))
            assert axes.images[0].get_cmap().name == "gray_r"
            assert axes.get_aspect() == aspect
            assert axes.get_title() == f"{number % 3}, taken for {(number + 1) % 3}"


def test_nothing_was_wrong(tmp_path: Path, figure: list[Any]) -> None:
    _, _, right = _parts(_drawn([_result(wrong=0)], tmp_path, figure))
    assert right.get_suptitle() == "Examples it got wrong (0 of 0)"
    assert [(text.get_text(), text.get_position()) for text in right.texts[-1:]] == [("none", (0.5, 0.5))]
    assert right.axes == []
