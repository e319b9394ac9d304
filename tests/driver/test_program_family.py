"""compile_family: one program for all lengths and numbers of sequences, and who has none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

import nnet3
from nnet3.driver import compile_task
from nnet3.driver.program_family import formula, formulas
from nnet3.errors import RequestError
from tests.families.networks import request_for, same_program

RECURRENT = """
input-node name=input dim=6
component name=a type=NaturalGradientAffineComponent input-dim=10 output-dim=4
component name=s type=SigmoidComponent dim=4
component-node name=a component=a input=Append(input, IfDefined(Offset(s, -1)))
component-node name=s component=s input=a
output-node name=output input=s
"""


def network() -> nnet3.Nnet:
    return nnet3.Nnet.from_config(RECURRENT)


@pytest.mark.parametrize("sequences", [1, 5])
def test_members_are_the_programs_that_are_compiled(sequences: int) -> None:
    nnet = network()
    family = nnet3.compile_family(nnet, request_for(nnet, 40, sequences, train=True))
    assert (family.any_sequences, family.sequences) == ((True, 4) if sequences == 5 else (False, 1))
    for frames, number in ((family.frames, family.sequences), (90, 7 if family.any_sequences else 1)):
        exact = compile_task(request_for(nnet, frames, number, train=True).task(nnet))
        assert same_program(family.at(frames, number), exact)


def test_a_program_is_as_large_for_every_length() -> None:
    nnet = network()
    family = nnet3.compile_family(nnet, request_for(nnet, 40, 1, train=True))
    assert len({len(family.at(frames).commands) for frames in (family.frames, 50, 5000)}) == 1
    assert len(nnet3.compile(nnet, request_for(nnet, 300, 1, train=True)).commands) < 200


def test_it_prints_with_its_parameters() -> None:
    nnet = network()
    text = str(nnet3.compile_family(nnet, request_for(nnet, 40, 5, train=False)))
    assert text.startswith("# T = 17, 18, ... output frames of N = 4, 5, ... sequences\n")
    assert "m1(N * (T + 80), 6) == value: input [ (0:N - 1, -40:T + 39) ]" in text
    assert "repeat T + " in text


def test_shapes_that_are_no_members() -> None:
    nnet = network()
    family = nnet3.compile_family(nnet, request_for(nnet, 40, 1, train=False))
    with pytest.raises(RequestError, match=r"no member for 3 frames, only for 17 \+ 1 k"):
        family.at(3)
    with pytest.raises(RequestError, match=r"no member for 10000000000 frames of 1 sequences: .* more than 32 bits"):
        family.at(10**10)
    with pytest.raises(RequestError, match="no member for 2 sequences: 1 only"):
        family.at(20, 2)


def test_requests_without_a_family_say_why() -> None:
    nnet = network()
    with pytest.raises(RequestError, match="too short to tell how longer ones go on: ask for more frames"):
        nnet3.compile_family(nnet, request_for(nnet, 5, 1, train=False))
    request = request_for(nnet, 50, 2, train=False)
    outputs = [nnet3.IoSpecification("output", request.outputs[0].indexes[:-1])]
    with pytest.raises(RequestError, match="sequences end at different times: ask for sequences that are all alike"):
        nnet3.compile_family(nnet, nnet3.ComputationRequest(request.inputs, outputs))


def looking(descriptor: str) -> nnet3.Nnet:
    return nnet3.Nnet.from_config(f"input-node name=input dim=3\noutput-node name=output input={descriptor}")


@pytest.mark.parametrize(
    "descriptor",
    ["Switch(input, Offset(input, -2), Offset(input, 1))", "Sum(input, IfDefined(ReplaceIndex(input, t, 50)))"],
)
@pytest.mark.parametrize("sequences", [2, 5])
def test_switches_and_absolute_times_have_families(descriptor: str, sequences: int) -> None:
    nnet = looking(descriptor)
    family = nnet3.compile_family(nnet, request_for(nnet, 99, sequences, margin=60))
    for frames in (family.frames, family.frames + 7 * family.step):
        exact = compile_task(request_for(nnet, frames, family.sequences, margin=60).task(nnet))
        assert same_program(family.at(frames), exact)


def test_networks_without_a_family_are_named_with_the_reason() -> None:
    nnet = looking("Sum(input, IfDefined(Offset(input, -100)))")
    with pytest.raises(RequestError, match="no program for all lengths: it cannot be told from short requests how"):
        nnet3.compile_family(nnet, request_for(nnet, 60))


SMALL = st.integers(-9, 9)


def value(text: str, frames: int, sequences: int) -> float:
    """The value of a formula: `3N T - T/2`."""
    product = re.sub(r"(?<=[\dN]) ?(?=[NT])", " * ", text)
    return eval(product, {"T": frames, "N": sequences})


@given(SMALL, SMALL, SMALL, SMALL, st.integers(1, 30), st.integers(1, 5), st.integers(1, 9), st.integers(1, 3))
def test_a_formula_holds_for_every_shape(
    a: int, b: int, c: int, d: int, frames: int, by: int, sequences: int, more: int
) -> None:
    def wanted(frames: int, sequences: int) -> int:
        return a + b * frames + c * sequences + d * frames * sequences

    shapes = [(t, n) for n in (sequences, sequences + more) for t in (frames, frames + by)]
    text = formula([wanted(*shape) for shape in shapes], shapes)
    for shape in (*shapes, (1, 1), (100, 7)):
        assert value(text, *shape) == wanted(*shape), text


def test_one_number_of_sequences_gives_formulas_in_frames_alone() -> None:
    shapes = [(8, 1), (10, 1)] * 2
    assert formula([4, 5, 4, 5], shapes) == "T/2"
    assert formula([4, 4, 4, 4], shapes) == "4"
    assert formula([4, 2, 4, 2], shapes) == "-T + 12"


def test_names_keep_their_digits_and_lines_of_another_form_say_their_shape() -> None:
    texts = [f"tdnn1.affine(0:{n}) 2.5\n{'x' * n}" for n in (3, 4)] * 2
    assert formulas(texts, [(3, 1), (4, 1)] * 2) == "tdnn1.affine(0:T) 2.5\nxxx  [at T = 3, N = 1]"


def test_formulas_hold_for_the_other_texts_too() -> None:
    """The third entry of a cut list is of another frame for every N."""
    shapes = [(8, 2), (9, 2), (8, 3), (9, 3), (13, 5)]

    def text(frames: int, n: int) -> str:
        return f"m[0:{n * frames - 1}]\n[{', '.join(str(i % n * frames + i // n) for i in range(4))}, ...]"

    lines = formulas([text(*shape) for shape in shapes], shapes).splitlines()
    assert lines == ["m[0:N T - 1]", "[0, 8, 1, 9, ...]  [at T = 8, N = 2]"]
