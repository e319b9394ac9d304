"""Components from values, from config lines and in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnet3 import components
from nnet3.components import RandomSource
from nnet3.errors import ComponentError, ConfigError, ModelFormatError
from nnet3.kaldi_io import Reader
from nnet3.model.components.component_fields import ComponentFields
from nnet3.model.components.field_table import Field
from nnet3.model.components.value_kinds import NUMBER, SIZE
from tests.components.component_text import config_line


class Form(ComponentFields):
    type_name = "Form"
    fields = (Field("dim", SIZE), Field("rate", NUMBER, default=0.5), Field("later", NUMBER, default=1.0))
    heading = ("dim",)
    shown = ("rate",)
    dim = 0  # type: ignore[assignment]
    later = -1.0

    def __init__(self, dim: int, rate: float = 0.25) -> None:
        self.dim, self.rate = dim, rate  # type: ignore[misc]


def test_values_are_arguments_or_attributes() -> None:
    made = Form.from_values({"dim": 3, "rate": None, "later": 7.0})
    assert (made.dim, made.rate, made.later) == (3, 0.25, 7.0)


def test_a_config_line_fills_in_defaults() -> None:
    made = Form.from_config(config_line("dim=4"), RandomSource(0))
    assert (made.dim, made.rate, made.later) == (4, 0.5, 1.0)
    with pytest.raises(ConfigError, match="'dim=' is missing"):
        Form.from_config(config_line("rate=1"), RandomSource(0))


def test_files_have_the_fields_in_order(tmp_path: Path) -> None:
    made = Form.from_config(config_line("dim=4 rate=2"), RandomSource(0))
    made.write(str(tmp_path / "form"), binary=False)
    text = (tmp_path / "form").read_text()
    assert text == "<Form> <Dim> 4 <Rate> 2 <Later> 1 </Form> \n"
    again = Form.read(Reader(text.removeprefix("<Form> ").encode(), "x"))
    assert (again.dim, again.rate, again.later) == (4, 2.0, 1.0)
    with pytest.raises(ModelFormatError, match="expected </Form>"):
        Form.read(Reader(text.removeprefix("<Form> ").replace("</Form>", "</Other>").encode(), "x"))


def test_binary_files_begin_with_their_header(tmp_path: Path) -> None:
    component = components.create("TanhComponent", "dim=3")
    component.write(str(tmp_path / "tanh"))
    assert (tmp_path / "tanh").read_bytes().startswith(b"\0B<TanhComponent> ")
    assert components.read(tmp_path / "tanh").info() == component.info()


def test_info_has_heading_and_what_is_shown() -> None:
    assert Form(4, 2.0).info() == "Form, dim=4, rate=2"


def test_without_fields_each_method_has_to_be_there() -> None:
    class Bare(ComponentFields):
        type_name = "Bare"

    for call in (lambda: Bare.from_config(config_line(""), RandomSource(0)), lambda: Bare.read(Reader(b"", "x"))):
        with pytest.raises(ComponentError, match=r"Bare declares no fields and defines no (from_config|read)"):
            call()


def test_the_dimension_is_that_of_the_input() -> None:
    assert components.create("TanhComponent", "dim=3").dim == 3
