"""Commands in groups: under what they are for, forward and backward, cut short, with times."""

from __future__ import annotations

import re

from nnet3 import CompileOptions, ComputationRequest, IoSpecification, compile
from nnet3.cli.show_stages import grouped_commands
from nnet3.engine.ir.computation import NnetComputation
from nnet3.model.nnet import Nnet

CONFIG = """
input-node name=input dim=3
component name=first type=AffineComponent input-dim=6 output-dim=4
component name=second type=AffineComponent input-dim=2 output-dim=2
component-node name=first component=first input=Append(Offset(input, -1), input)
dim-range-node name=part input-node=first dim-offset=1 dim=2
component-node name=other component=second input=part
output-node name=output input=other
"""
NNET = Nnet.from_config(CONFIG)


def _computation(backward: bool) -> NnetComputation:
    request = ComputationRequest(
        [IoSpecification("input", [[0, t, 0] for t in (-1, 0, 1)], has_deriv=backward)],
        [IoSpecification("output", [[0, 0, 0], [0, 1, 0]], has_deriv=backward)],
        need_model_derivative=backward,
    )
    return compile(NNET, request, CompileOptions(optimize=False))


def _headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("# ") and ";" not in line]


def test_headings_say_what_commands_are_for() -> None:
    text = grouped_commands(_computation(backward=False), NNET)
    assert text.startswith("# ")
    headings = [heading.removeprefix("# ") for heading in _headings(text)]
    assert "input, an input" in headings
    assert "first_input = Append(Offset(input, -1), input)" in headings
    assert "first = AffineComponent first, 6 -> 4" in headings
    assert "other = AffineComponent second, 2 -> 2" in headings
    assert headings == [heading for number, heading in enumerate(headings) if heading != headings[number - 1]]


def test_forward_commands_come_before_backward_ones() -> None:
    computation = _computation(backward=True)
    text = grouped_commands(computation, NNET)
    headings = _headings(text)
    ways = [heading.partition(":")[0] for heading in headings if ":" in heading]
    assert ways == sorted(ways, reverse=True)
    assert set(ways) == {"# forward", "# backward"}
    assert "# backward: derivative of first = AffineComponent first, 6 -> 4" in headings
    assert "# backward: derivative of input, an input" in headings
    numbers = re.findall(r"^c(\d+): ", text, re.MULTILINE)
    assert numbers == [str(number) for number in range(len(computation.commands))]


def test_what_is_left_out_is_counted() -> None:
    computation = _computation(backward=False)
    count = len(computation.commands)
    whole = grouped_commands(computation, NNET)
    assert grouped_commands(computation, NNET, count) == whole
    lines = grouped_commands(computation, NNET, 3).splitlines()
    assert lines[-1] == f"... {count - 3} more commands"
    assert lines[:-1] == whole.splitlines()[: len(lines) - 1]
    assert sum(line.startswith("c") for line in lines) == 3


def test_times_stand_before_commands() -> None:
    computation = _computation(backward=False)
    count = len(computation.commands)
    plain = grouped_commands(computation, NNET).splitlines()
    lines = grouped_commands(computation, NNET, None, {2: 1.5e-3, count - 1: 2.25e-6}).splitlines()
    assert lines[-1] == "# 1.502 ms in all"
    expected = []
    for line in plain:
        time = {"c2": "1500.0 us", f"c{count - 1}": "2.2 us"}.get(line.partition(":")[0], "")
        expected.append(f"{time:>12}  {line}" if re.match(r"c\d+: ", line) else line)
    assert lines[:-1] == expected
