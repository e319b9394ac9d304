"""The golden data of discriminative training: cases, the options of lines, tables of examples."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import nnet3
from nnet3.base.kaldi_io.lattice import Lattice, open_lattice_table
from nnet3.base.options.discriminative import DiscriminativeOptions
from nnet3.examples import ExampleReader
from nnet3.training.discriminative.lattice_example import DISCRIMINATIVE_EXAMPLES, DiscriminativeExample
from tests.shared_data import SHARED

GOLDEN = SHARED / "discriminative"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/egs.cmd"))
needs_golden = pytest.mark.skipif(not SHARED.is_dir(), reason=f"Kaldi's runs are not at {GOLDEN}")
#: What lines begin with.
GIVEN = ("start.mdl", "tree", "feats.ark", "ivectors.ark", "ali.ark", "HCLG.fst")


@dataclass
class DiscriminativeCase:
    """A case. `compared` has the files that a test has used."""

    name: str
    compared: set[str] = field(default_factory=set)

    @property
    def folder(self) -> Path:
        return GOLDEN / self.name

    @cached_property
    def model(self) -> nnet3.AcousticModel:
        model = nnet3.load(self.folder / "start.mdl")
        assert isinstance(model, nnet3.AcousticModel)
        return model

    def golden(self, name: str) -> Path:
        """Kaldi's file, which counts as compared."""
        self.compared.add(name)
        return self.folder / name

    def take(self, *names: str) -> None:
        """Copies files into the current folder, as far as the case has them."""
        for name in names:
            if (self.folder / name).exists():
                shutil.copyfile(self.golden(name), name)

    def lines(self, name: str) -> list[str]:
        return self.golden(name).read_text().splitlines()

    def examples(self, name: str) -> dict[str, DiscriminativeExample]:
        return read_examples(self.golden(name))

    def lattices(self, name: str) -> dict[str, Lattice]:
        return dict(open_lattice_table(f"ark:{self.golden(name)}"))


def read_examples(path: str | Path) -> dict[str, DiscriminativeExample]:
    """The examples of a table, by key."""
    with ExampleReader(f"ark:{path}", DISCRIMINATIVE_EXAMPLES) as table:
        return dict(table)


def options_of(line: str) -> dict[str, str]:
    """The options of a line, by name."""
    return dict(re.findall(r"--([a-z0-9-]+)=(\S+)", line))


def criterion_of(line: str, **others: Any) -> DiscriminativeOptions:
    """The options of the criterion that a line has."""
    values: dict[str, Any] = {}
    for name, text in options_of(line).items():
        known = name.replace("-", "_")
        if known == "silence_phones":
            values[known] = tuple(map(int, text.split(":")))
        elif known in DiscriminativeOptions.__dataclass_fields__:
            values[known] = (
                text if known == "criterion" else text == "true" if text in ("true", "false") else float(text)
            )
    return DiscriminativeOptions(**values | others)
