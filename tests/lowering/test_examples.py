"""The worked examples of lowering/: every file has one, and it prints what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import nnet3.engine.lowering

FILES = sorted({*Path(nnet3.engine.lowering.__file__).parent.glob("*.py")} - {Path(nnet3.engine.lowering.__file__)})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_example_prints_what_it_says(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = nnet3.engine.lowering.__name__
    module = importlib.import_module(f"{package}.{path.stem}")
    assert ">>> " in (module.__doc__ or ""), "the docstring of the file has no example"
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0, capsys.readouterr().out
