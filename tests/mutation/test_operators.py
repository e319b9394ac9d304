"""Mutants: which small bugs are put in, and what names them. And one room is tried as `make mutate` does it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.effort import nightly
from tools.mutation.equivalent import read_equivalents
from tools.mutation.mutant import Mutant, moved_lines
from tools.mutation.operators import mutants_of

ROOT = Path(__file__).resolve().parents[2]


def changes(text: str) -> set[str]:
    """The changed lines of all mutants of a text."""
    return {mutant.change[1] for mutant in mutants_of("x.py", text) if mutant.compiles}


@pytest.mark.parametrize(
    ("line", "mutated"),
    [
        ("a = b < c", ["a = (b <= c)"]),
        ("a = b + c", ["a = (b - c)", "a = (b)"]),
        ("a = b and c", ["a = (b or c)", "a = (c)"]),
        ("a = not b", ["a = (b)"]),
        ("a = 3", ["a = (4)", "a = (2)"]),
        ("a = True", ["a = (False)"]),
        ("f(a, b, c=d)", ["(f(b, a, c=d))", "(f(a, b))", "pass"]),
        ("a.b = c", ["pass"]),
        ("a += b", ["a -= b", "a = b", "pass"]),
        ("a = b[c:]", ["a = b[c + 1:]", "a = b[c + -1:]"]),
        ("a = min(b)", ["a = (max(b))"]),
        ("a = b if c else d", ["a = (b)", "a = (d)"]),
        ("def f(a=1): return a", ["def f(a=(2)): return a"]),
        ("for a in b: continue", ["for a in b: break"]),
    ],
)
def test_each_operator_makes_its_bugs(line: str, mutated: list[str]) -> None:
    assert set(mutated) <= changes(line + "\n")


@pytest.mark.parametrize(
    "text",
    [
        'def f(a: "int | None") -> int | None:\n    """One 1 + 1."""\n    return a\n',
        "assert a < b\n",
        'raise ValueError(f"{a + 1} is 2")\n',
        "a: TypeAlias = b | c\n",
        "if TYPE_CHECKING:\n    a = 1\n",
        "from a import b\n",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    assert not changes(text)


def test_mutants_of_a_file_have_different_names_and_most_compile() -> None:
    path = ROOT / "src/nnet3/engine/lowering/slot_shapes.py"
    text = path.read_text()
    mutants = mutants_of("src/nnet3/engine/lowering/slot_shapes.py", text)
    assert len(mutants) > 100
    assert len({mutant.name for mutant in mutants}) == len(mutants)
    later = [Mutant(**{**vars(m), "text": "\n" + text, "start": m.start + 1, "end": m.end + 1}) for m in mutants[:9]]
    assert all(mutant.mutated != text for mutant in mutants)
    assert sum(mutant.compiles for mutant in mutants) > 0.95 * len(mutants)
    assert [m.change for m in later] == [m.change for m in mutants[:9]]


def test_lines_that_moved() -> None:
    assert moved_lines("a\nb\nc", "x\na\nc") == {2: 1, 3: 3}


def test_equivalent_mutants_are_mutants() -> None:
    """Each entry names a change that can still be made, so that the list does not outlive the code."""
    found: dict[str, dict[tuple[str, str], Mutant]] = {}
    for path, before, after in read_equivalents():
        if path not in found:
            found[path] = {mutant.change: mutant for mutant in mutants_of(path, (ROOT / path).read_text())}
        assert found[path][before, after].compiles


@nightly
def test_a_room_is_tried_in_a_copy(new_python: Path, tmp_path: Path) -> None:
    """One file with its test; the checkout stays as it is."""
    before = (ROOT / "src/nnet3/base/text/suggest.py").read_bytes()
    arguments = ["base/text/suggest.py", "--sample=2", "--tests=tests/text", f"--folder={tmp_path}"]
    command = [new_python, "-m", "tools.mutation"]
    process = subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=ROOT)
    assert process.returncode in (0, 1), process.stderr
    assert " of 2 mutants caught" in process.stdout
    again = subprocess.run([*command, "--no-retry", *arguments], capture_output=True, text=True, cwd=ROOT)
    assert again.stdout.splitlines()[-1] == process.stdout.splitlines()[-1]
    assert "s src/nnet3" not in again.stdout, "nothing was tried again"
    assert (ROOT / "src/nnet3/base/text/suggest.py").read_bytes() == before
