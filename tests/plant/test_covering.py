"""The cases that execute a line are known, also of what functions have kept."""

from __future__ import annotations

from functools import partial

from nnet3.base.native import library
from nnet3.engine.runtime.dtypes import dtype_name
from tools.mutation.mutant import Mutant
from tools.plant.covering import Covering
from tools.plant.planting import ROOT

DTYPES, LIBRARY = "src/nnet3/engine/runtime/dtypes.py", "src/nnet3/base/native/library.py"


def at(path: str, text: str) -> Mutant:
    whole = (ROOT / path).read_text()
    line = whole.count("\n", 0, whole.index(text)) + 1
    return Mutant(path, whole, 0, 0, "", "planted", line, line, (line, line))


def test_lines_know_their_cases() -> None:
    covering = Covering([DTYPES, LIBRARY])
    for number, call in enumerate([partial(dtype_name, "float32"), library.library] * 2):
        with covering.of(number):
            call()
    covering.settle()
    inside = at(LIBRARY, "return _found[0]")
    assert covering.cases_of(inside) == [1, 3]
    assert covering.cases_of(at(LIBRARY, "raise RuntimeError")) == []
    before = (ROOT / DTYPES).read_text().splitlines()
    body = next(line for line in before if line.startswith("    return "))
    assert covering.cases_of(at(DTYPES, body)) == [0, 2]
