"""Networks, programs and profiles as notebooks show them."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnet3
from nnet3 import cn
from nnet3.base.drawing import graphviz
from nnet3.engine.runtime.profile import profile
from nnet3.model.nnet import AcousticModel, Nnet
from tests.shared_data import GOLDEN

CONFIG = """
input-node name=input dim=2
component name=affine type=AffineComponent input-dim=4 output-dim=3
component-node name=affine component=affine input=Append(Offset(input, -1), input)
output-node name=output input=affine
"""


def _request() -> nnet3.ComputationRequest:
    given = [nnet3.IoSpecification("input", [(0, t, 0) for t in range(-1, 4)])]
    return nnet3.ComputationRequest(given, [nnet3.IoSpecification("output", [(0, t, 0) for t in range(4)])])


def test_a_network_shows_its_picture(tmp_path: Path) -> None:
    pytest.importorskip("pygraphviz")
    nnet = Nnet.from_config(CONFIG)
    bundle = nnet._repr_mimebundle_()
    assert bundle["text/plain"] == repr(nnet)
    assert "<svg" in bundle["text/html"]
    assert "AffineComponent" in bundle["text/html"]
    nnet.draw(tmp_path / "a.svg", title="a < b")
    assert "a &lt; b" in (tmp_path / "a.svg").read_text()
    assert len(nnet.draw(every_node=True).graph.nodes) == 3


def test_without_graphviz_there_is_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphviz.shutil, "which", lambda name: None)
    monkeypatch.setattr(graphviz, "find_spec", lambda name: None)
    shown = Nnet.from_config(CONFIG)._repr_html_()
    assert "<svg" not in shown
    assert "left context" in shown
    assert "<svg" not in cn.Network(outputs={"y": cn.tanh(cn.input("x", 2))})._repr_html_()


def test_a_program_and_a_profile() -> None:
    nnet = Nnet.from_config(CONFIG)
    computation = nnet3.compile(nnet, _request())
    shown = computation._repr_html_()
    assert shown.startswith("<details open><summary>3 matrices, ")
    assert "affine.Propagate(m2, &amp;m3)" in shown
    report = profile(nnet3.NnetComputer(computation, nnet), repeats=1)
    assert report._repr_html_().count("<tr>") == 1 + len(report.rows())


def test_an_acoustic_model() -> None:
    am = nnet3.load(GOLDEN / "mdl" / "1" / "final.mdl")
    assert isinstance(am, AcousticModel)
    assert am.nnet._repr_html_() in am._repr_html_()
