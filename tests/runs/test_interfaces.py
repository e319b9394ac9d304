"""Kinds of data and objectives: their sections, and settings that are read by them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from nnet3.base.options.declaring import Options, option
from nnet3.base.text.values import Text
from nnet3.errors import TrainingError
from nnet3.training.runs.data_kinds import KINDS
from nnet3.training.runs.interfaces import Entry, Kinds, SettingError, Share


@dataclass(frozen=True)
class Own(Options):
    file: str = option("", Text(), "File.")


def test_sections_are_those_of_the_entries() -> None:
    kinds = Kinds({"own": Entry(Own, object)}, {"other": Entry(Own, object)})
    assert kinds.sections == ({"own": Own}, {"other": Own})


def test_a_setting_error_knows_its_key() -> None:
    error = SettingError("den-fst", "cannot be read")
    assert isinstance(error, TrainingError)
    assert (error.key, error.message, str(error)) == ("den-fst", "cannot be read", "den-fst: cannot be read")


def test_alone_a_process_has_all() -> None:
    assert Share() == Share(rank=0, size=1)


@pytest.mark.parametrize("which", ["data", "objective"])
def test_every_kind_of_the_package_can_be_had(which: str) -> None:
    entries = getattr(KINDS, which)
    assert entries
    method = "open" if which == "data" else "make"
    for entry in entries.values():
        assert issubclass(entry.section, Options)
        assert callable(getattr(entry.kind(), method))
