"""docs/cn_nodes.md: every name of nnet3.cn has an example, and all of them do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnet3 import cn
from tests.docs.doctest_page import DOCS, run_page


def test_the_examples_do_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_page("cn_nodes.md") > 80


def test_every_name_has_an_example() -> None:
    examples = "\n".join(re.findall(r"^(?:>>>|\.\.\.) .*", (DOCS / "cn_nodes.md").read_text(), re.MULTILINE))
    assert [name for name in cn.__all__ if not re.search(rf"\bcn\.{name}\b", examples)] == []
