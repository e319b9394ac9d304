"""What each pass changes, with commands, calls and bytes."""

from __future__ import annotations

import pytest

from nnet3.cli.show_stages import show_passes
from nnet3.engine.ir.passes.pipeline import PIPELINE, optimize
from nnet3.options import HIGHEST_LEVEL
from tests.ir.programs import training_step


def test_each_pass_has_its_line_and_its_changes(capsys: pytest.CaptureFixture[str]) -> None:
    computation = training_step()
    result = show_passes(computation, frozenset(), HIGHEST_LEVEL, None)
    assert str(result) == str(optimize(computation, level=HIGHEST_LEVEL))
    printed = capsys.readouterr().out.splitlines()
    heads = [line.split(":")[0] for line in printed if line.startswith("pass ")]
    assert heads == [f"pass {each.name}" for each in PIPELINE]
    assert "pass hoist_products: nothing to do" in printed
    [in_place] = [line for line in printed if line.startswith("pass work_in_place: ")]
    assert " commands, " in in_place
    assert " -> " in in_place
    assert "  -m5 = zeros(4, 3)" in printed
    assert not any("@@" in line for line in printed)


def test_lines_are_limited_and_passes_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    show_passes(training_step(), {"share_copies"}, 3, 1)
    printed = capsys.readouterr().out.splitlines()
    assert not any("share_copies" in line for line in printed)
    changes = [line for line in printed if line.startswith("  ")]
    assert len(changes) == 2 * sum(line.startswith("  ... and ") for line in changes)
