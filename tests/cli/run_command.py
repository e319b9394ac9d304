"""Runs `nnet3 ...` in this process, and small files for it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from nnet3.cli import main

CONFIG = """
input-node name=input dim=3
component name=affine type=AffineComponent input-dim=6 output-dim=4
component name=softmax type=LogSoftmaxComponent dim=4
component-node name=affine component=affine input=Append(Offset(input, -1), input)
component-node name=softmax component=softmax input=affine
output-node name=output input=softmax
"""

NORM_CONFIG = """
input-node name=input dim=3
component name=norm type=BatchNormComponent dim=3
component name=affine type=AffineComponent input-dim=3 output-dim=2
component-node name=norm component=norm input=input
component-node name=affine component=affine input=norm
output-node name=output input=affine
"""

IVECTOR_CONFIG = """
input-node name=input dim=3
input-node name=ivector dim=2
component name=affine type=AffineComponent input-dim=5 output-dim=4
component-node name=affine component=affine input=Append(input, ReplaceIndex(ivector, t, 0))
output-node name=output input=affine
"""


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


class Cli:
    """`cli("info", path)`: exit status and what was printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]):
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Outcome:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as error:
            main([str(argument) for argument in arguments])
        printed = self._capsys.readouterr()
        assert "Traceback" not in printed.err
        status = error.value.code
        assert isinstance(status, int)
        return Outcome(status, printed.out, printed.err)

    def good(self, *arguments: str | Path) -> Outcome:
        outcome = self(*arguments)
        assert outcome.status == 0, outcome.err
        return outcome


Shell = Callable[[str], "subprocess.CompletedProcess[str]"]
"""Runs a script of bash in the folder of the test, with the programs on its path."""
