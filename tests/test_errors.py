"""Where in a text something stands, and how errors say so."""

from __future__ import annotations

import pytest
import torch

from nnet3.errors import ArgumentError, ConfigError, ModelFormatError, Span, check_kind, is_out_of_memory, shown


def test_a_span_has_a_place_and_parts() -> None:
    span = Span("net.config", 7, 3, 10, "a bcdefghijkl m")
    assert span.place == "net.config:7:3"
    assert span.part(2, 4) == Span("net.config", 7, 5, 4, span.text)
    assert span.text[span.column - 1 :][: span.length] == "bcdefghijk"


def test_the_caret_stands_under_the_span() -> None:
    text = "    input=Append(tdnn1, tdnn2)"
    line, caret = Span("x", 1, text.index("tdnn2") + 1, 5, text).excerpt("here").splitlines()
    assert line.strip() == text.strip()
    assert caret[line.index("tdnn2") :] == "^^^^^ here"


@pytest.mark.parametrize("at", [0, 150, 395])
def test_of_a_long_line_the_part_round_the_span_is_shown(at: int) -> None:
    text = "".join(chr(ord("a") + k % 26) for k in range(400))
    line, caret = Span("x", 1, at + 1, 4, text).excerpt().splitlines()
    assert len(line) <= 114
    assert line[caret.index("^") : caret.rindex("^") + 1] == text[at : at + 4]
    assert line.strip().startswith("…") == (at > 0)
    assert line.endswith("…") == (at < 395)


def test_tabs_do_not_move_the_caret() -> None:
    line, caret = Span("x", 1, 4, 1, "\ta\tb").excerpt().splitlines()
    assert line[caret.index("^")] == "b"


def test_config_errors_say_place_and_hint() -> None:
    span = Span("net.config", 2, 1, 3, "abc")
    assert str(ConfigError("no such node", span, "did you mean x?")) == (
        "net.config:2:1: no such node\n  abc\n  ^^^ did you mean x?"
    )
    assert str(ConfigError("no such node", hint="did you mean x?")) == "no such node (did you mean x?)"


def test_file_errors_say_what_they_know_of_the_place() -> None:
    assert str(ModelFormatError("bad", "final.mdl", "byte 7")) == "final.mdl: byte 7: bad"
    assert str(ModelFormatError("bad", place="byte 7")) == "byte 7: bad"
    assert str(ModelFormatError("bad")) == "bad"


def test_a_value_of_the_wrong_kind_is_shown() -> None:
    check_kind(1, (int, float), "x", "a number")
    with pytest.raises(ArgumentError, match=r"x must be a number, got 'three'$"):
        check_kind("three", int, "x", "a number")
    with pytest.raises(ArgumentError, match="got a list: give its length"):
        check_kind([0] * 100, int, "x", "a number", ": give its length")


def test_values_that_have_no_repr_are_shown_by_their_type() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert shown(10**5000) == "an int"
    assert shown(nested) == "a list"
    assert shown("x") == "'x'"
    while nested:  # to free it at once would recurse, too
        nested = nested.pop()  # type: ignore[assignment]


def test_a_model_in_the_place_of_a_network_gets_a_hint() -> None:
    model = type("AcousticModel", (), {"__repr__": lambda self: "model"})()
    with pytest.raises(ArgumentError, match=r"got model: give its \.nnet"):
        check_kind(model, int, "x", "a network")


def test_memory_that_ran_out_is_recognised() -> None:
    assert is_out_of_memory(MemoryError())
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**62)
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError("something else"))
    assert not is_out_of_memory(ValueError("out of memory"))
