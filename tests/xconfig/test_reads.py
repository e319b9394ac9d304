"""Reads of values of a layer's keys from a network."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.model.nnet import Nnet
from nnet3.model.xconfig import found as reads
from nnet3.model.xconfig.found import Found, SearchedNetwork
from nnet3.model.xconfig.term import Term

CONFIG = """
input-node name=input dim=4
component name=l.affine type=AffineComponent input-dim=4 output-dim=6 max-change=0.75
component name=l.k type=NoOpComponent dim=6
component-node name=l.affine component=l.affine input=input
component-node name=l.k component=l.k input=Sum(Scale(0.5, l.affine), IfDefined(Offset(l.k, -3)))
output-node name=output input=Append(Offset(l.k, 2), Offset(l.affine, 2)) objective=quadratic
"""


def _found(name: str) -> Found:
    return Found(SearchedNetwork(Nnet.from_config(CONFIG).parts), name)


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (reads.setting("max-change", "none", "affine"), "0.75"),
        (reads.setting("max-change", "none"), "None"),
        (reads.output_dim("affine"), "6"),
        (reads.has("affine"), "True"),
        (reads.has("relu"), "False"),
        (reads.delay, "-3"),
        (reads.scale_in("k"), "0.5"),
        (reads.scale_in("k", of_layer=False), "1.0"),
        (reads.scale_in("affine"), "1.0"),
        (reads.scale_in("none"), "None"),
    ],
)
def test_settings_are_read_off_a_layer(read: reads.Read, value: str) -> None:
    assert str(read(_found("l"))) == value


def test_objective_and_delay_are_read_off_an_output() -> None:
    assert reads.objective(_found("output")) == "quadratic"
    assert reads.output_delay(_found("output")) == 2
    assert reads.objective(_found("l.affine")) is None
    assert reads.output_delay(_found("none")) is None


def test_parts_at_several_offsets_have_no_delay() -> None:
    text = CONFIG.replace("Offset(l.affine, 2)", "l.affine")
    found = Found(SearchedNetwork(Nnet.from_config(text).parts), "output")
    assert reads.output_delay(found) is None


@pytest.mark.parametrize(
    ("value", "text"), [((1, 2.5), "1,2.5"), (0.1, "0.1"), (float(np.float32(0.1)), "0.1"), (3, "3")]
)
def test_settings_as_config_lines_have_them(value: object, text: str) -> None:
    assert reads.shown(value) == text


def test_subterms_come_outer_first() -> None:
    inner = Term("Offset", (Term("", ("a",)), 1))
    outer = Term("Sum", (inner, Term("", ("b",))))
    assert [str(part) for part in reads.subterms(outer)] == [str(outer), str(inner), "a", "b"]
