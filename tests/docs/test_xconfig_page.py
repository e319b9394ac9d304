"""docs/xconfig.md is what `make xconfig` writes now, names every layer, and its examples are right."""

from __future__ import annotations

import importlib
import re
from types import ModuleType

import pytest

import nnet3
from nnet3.xconfig import LAYER_TYPES, expand_xconfig
from tests.docs.doctest_page import DOCS


@pytest.fixture
def xconfig_page() -> ModuleType:
    return importlib.import_module("tools.xconfig_page")


def test_the_page_is_up_to_date(xconfig_page: ModuleType) -> None:
    assert xconfig_page.PAGE.read_text() == xconfig_page.page(), "run `make xconfig`"


def test_every_layer_has_a_section() -> None:
    text = (DOCS / "xconfig.md").read_text()
    assert re.findall(r"^### (\S+)$", text, re.MULTILINE) == list(LAYER_TYPES)
    for layer_type in LAYER_TYPES.values():
        for key in layer_type.keys:
            assert f"| `{key.name}` |" in text


def test_examples_of_the_page_expand() -> None:
    blocks = re.findall(r"^```xconfig\n(.*?)^```$", (DOCS / "xconfig.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1 + len(LAYER_TYPES)
    for block in blocks:
        assert expand_xconfig(block).layers
    assert nnet3.Nnet.from_xconfig(blocks[0]).output_names == ["output"]


def test_the_page_is_linked() -> None:
    for page in ("../README.md", "kaldi_users.md", "architecture.md"):
        assert "xconfig.md)" in (DOCS / page).read_text()
