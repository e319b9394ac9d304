"""Random xconfigs give an error of this package or a network that compiles, never anything else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st

import nnet3
from nnet3.errors import ConfigError, NetworkError, RequestError
from nnet3.xconfig import LAYER_TYPES, Key, Pairs, expand_xconfig
from tests.effort import draws
from tests.xconfig.layer_examples import examples

NUMBERS = ["0", "1", "-1", "0.5", "2", "3", "6", "12", "0.01", "1e-05", "-3", "30", "nan", "inf", "", "x", "true"]
OPTIONS = ['""', '"max-change=0.5"', '"rank-in=2 alpha=2"', '"foo=1"', "foo", '"a b=c"']
INPUTS = ["input", "-1", "[-1]", "Append(-1,0)", "Sum(input, input@2)", "Scale(0.5, input)", "ivector", "Const(1, 12)"]
INPUTS += [
    "ReplaceIndex(ivector, t, 0)",
    "Round(input, 3)",
    "IfDefined(input)",
    "Append(input",
    "Switch(input,input)",
    "",
]


def values_of(key: Key) -> st.SearchStrategy[str]:
    if isinstance(key.kind, Pairs):
        return st.sampled_from(OPTIONS)
    if isinstance(key.default, bool):
        return st.sampled_from(["true", "false", "False", "no", ""])
    if isinstance(key.default, str):
        words = ["-1,0,1", "0", "1,0", "a.mat", "linear", "input", "relu", "none", "left-only", "mean(-6:1:3:6)"]
        return st.sampled_from([*NUMBERS, *words, "mean+stddev(-6:2:3:6)"])
    return st.sampled_from(NUMBERS)


@st.composite
def layer_lines(draw: Any) -> str:
    """A layer of any type, half of its values from an example of the type, some at random."""
    layer_type = draw(st.sampled_from(sorted(LAYER_TYPES)))
    values = draw(st.sampled_from(examples(layer_type))) if draw(st.booleans()) else ""
    keys = [key for key in LAYER_TYPES[layer_type].keys if f"{key.name}=" not in values]
    if keys:
        for key in draw(st.lists(st.sampled_from(keys), max_size=3, unique_by=lambda key: key.name)):
            values += f" {key.name}={draw(values_of(key))}"
    if "input=" not in values and draw(st.booleans()):
        values += f" input={draw(st.sampled_from(INPUTS))}"
    return f"{layer_type} {values}"


T = TypeVar("T")


def result_or_error(function: Callable[[str], T], text: str) -> T | ConfigError:
    """What a function makes of an xconfig, or its error, which must point into the text."""
    try:
        return function(text)
    except ConfigError as error:
        problem = error
    span = problem.span
    if span is not None:
        assert span.source == "<xconfig>"
        assert 0 <= span.column - 1 <= len(span.text)
        assert span.text in text
    return problem


def check_compiles(text: str) -> None:
    nnet = result_or_error(nnet3.Nnet.from_xconfig, text)
    if isinstance(nnet, ConfigError):
        return
    times = np.array([[0, t, 0] for t in range(-60, 70)])
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification(name, times) for name in nnet.input_names],
        [nnet3.IoSpecification("output", [[0, 0, 0], [0, 6, 0]], has_deriv=True)],
        need_model_derivative=True,
    )
    with contextlib.suppress(RequestError, NetworkError):
        assert nnet3.compile(nnet, request).commands


@settings(max_examples=draws(40), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(layer_lines(), min_size=1, max_size=3))
def test_random_layers_compile(lines: list[str]) -> None:
    named = [line.replace(" ", f" name=layer{number} ", 1) for number, line in enumerate(lines)]
    whole = ["input name=ivector dim=4", "input name=input dim=12", *named, "output-layer name=output dim=3"]
    check_compiles("\n".join(whole))


PIECES = [*'abinput-layer=@()[],. "#_019\n', "name=", "dim=3", "input=", "relu-layer ", "Append(", "-1"]


@settings(max_examples=draws(300), deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_random_text_is_expanded_or_refused(text: str) -> None:
    result_or_error(expand_xconfig, f"input name=input dim=3\nrelu-layer name=a {text}")
