"""Sums of rows and vectors, of tables and files."""

from __future__ import annotations

from pathlib import Path

from tests.cli.run_command import Cli
from tests.road_case import run_line


def test_sums_of_rows(cli: Cli) -> None:
    Path("m").write_text("a  [\n 1 2\n 3 4 ]\nb  [\n 5 6 ]\n")
    cli.good("matrix-sum-rows", "ark:m", "ark,t:sums")
    assert Path("sums").read_text() == "a  [ 4 6 ]\nb  [ 5 6 ]\n"
    cli.good("matrix-sum-rows", "--do-average=true", "ark:m", "ark,t:means")
    assert Path("means").read_text() == "a  [ 2 3 ]\nb  [ 5 6 ]\n"
    assert "there are no matrices" in cli("matrix-sum-rows", "ark:/dev/null", "ark:sums").err


def test_sums_of_vectors(cli: Cli) -> None:
    Path("v").write_text("a  [ 4 6 ]\nb  [ 5 6 ]\n")
    Path("w").write_text("b  [ 1 1 ]\n")
    Path("1").write_text(" [ 1 2 3 ]\n")
    Path("2").write_text(" [ 10 20 ]\n")
    cli.good("vector-sum", "--binary=false", "ark:v", "out")
    assert Path("out").read_text() == " [ 9 12 ]\n"
    cli.good("vector-sum", "--binary=false", "--average=true", "ark:v", "out")
    assert Path("out").read_text() == " [ 4.5 6 ]\n"
    cli.good("vector-sum", "--binary=false", "1", "2", "1", "out")
    assert Path("out").read_text() == " [ 12 24 6 ]\n"
    outcome = cli("vector-sum", "ark:v", "ark:w", "ark:v", "ark,t:out")
    assert Path("out").read_text() == "a  [ 8 12 ]\nb  [ 11 13 ]\n"
    assert "warning: ark:w has no 'a'" in outcome.err
    assert outcome.status == 1  # as with Kaldi: not more sums than vectors that are missing
    Path("out").unlink()  # a vector does not take the place of a table
    assert "--average acts on one table" in cli.good("vector-sum", "--average", "1", "2", "out").err


def test_vectors_that_do_not_fit_together(cli: Cli) -> None:
    """Sums and statuses are those of Kaldi's vector-sum."""
    Path("v").write_text("a  [ 4 6 ]\nb  [ 5 6 7 ]\nc  [ ]\nd  [ 1 1 ]\ne  [ 2 3 ]\n")
    Path("w").write_text("a  [ 4 ]\nd  [ 1 2 ]\nb  [ 1 1 1 ]\nc  [ ]\n")
    outcome = cli.good("vector-sum", "--binary=false", "ark:v", "out")
    assert Path("out").read_text() == " [ 7 10 ]\n"
    assert "warning: ark:v: b: left out: expected 2 numbers, got 3" in outcome.err
    assert "3 entries summed, 2 left out" in outcome.err
    outcome = cli.good("vector-sum", "ark:v", "ark:w", "ark,t:out")
    assert Path("out").read_text() == "a  [ 4 6 ]\nb  [ 6 7 8 ]\nc  [ ]\nd  [ 2 3 ]\ne  [ 2 3 ]\n"
    assert "warning: ark:w: a: left out: expected 2 numbers, got 1" in outcome.err
    Path("v").write_text("a  [ 4 6 ]\nb  [ 5 6 7 ]\n")
    Path("out").unlink()
    assert cli("vector-sum", "--binary=false", "ark:v", "out").status == 1  # as many left out as summed
    assert Path("out").read_text() == " [ 4 6 ]\n"
    Path("out").unlink()
    for names in (["v"], ["ark:v", "v", "out"], ["v", "ark:out"], ["ark:v", "ark:v", "out"]):
        outcome = cli("vector-sum", *names)
        assert outcome.status == 2
        assert "give " in outcome.err
    assert run_line("vector-sum ark:/dev/null out").status == 1
    assert not Path("out").exists()
