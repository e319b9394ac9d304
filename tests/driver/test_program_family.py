"""compile_family: one program for all lengths and numbers of sequences, and who has none."""

from __future__ import annotations

from typing import Any

import pytest

import nnet3
from nnet3.engine.families.continued import NotAffineError
from nnet3.engine.families.family import ProgramFamily
from nnet3.engine.families.symbolic import symbolic
from nnet3.engine.ir.computation import NnetComputation
from nnet3.errors import RequestError
from tests.families.networks import compiled, request_for, same_program

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
        exact = compiled(nnet, request_for(nnet, frames, number, train=True))
        assert same_program(family.at(frames, number), exact)


def test_a_program_is_as_large_for_every_length() -> None:
    nnet = network()
    family = nnet3.compile_family(nnet, request_for(nnet, 40, 1, train=True))
    assert len({len(family.at(frames).commands) for frames in (family.frames, 50, 5000)}) == 1
    assert len(nnet3.compile(nnet, request_for(nnet, 300, 1, train=True)).commands) < 200


def test_it_prints_with_its_parameters() -> None:
    nnet = network()
    text = str(nnet3.compile_family(nnet, request_for(nnet, 40, 5, train=False)))
    assert text.startswith("# T = 9, 10, ... output frames of N = 4, 5, ... sequences\n")
    assert "m1(N * (T + 40), 6) == value: input [ (0:N - 1, -20:T + 19) ]" in text
    assert "repeat T + " in text


def test_what_has_commands_for_each_sequence_prints_for_the_fewest(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(family: ProgramFamily, k: Any, shapes: Any = None, n: Any = 0) -> NnetComputation:
        if shapes is not None:
            raise NotAffineError("there are commands for each sequence")
        return symbolic(family, k)

    monkeypatch.setattr("nnet3.engine.driver.program_family.symbolic", refuses)
    nnet = network()
    text = str(nnet3.compile_family(nnet, request_for(nnet, 40, 5, train=False)))
    assert text.splitlines()[1] == "# for N = 4, because there are commands for each sequence"
    assert "m1(4T + 160, 6) == value: input [ (0:3, -20:T + 19) ]" in text


def test_shapes_that_are_no_members() -> None:
    nnet = network()
    family = nnet3.compile_family(nnet, request_for(nnet, 40, 1, train=False))
    with pytest.raises(RequestError, match=r"no member for 3 frames, only for 9 \+ 1 k"):
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
        exact = compiled(nnet, request_for(nnet, frames, family.sequences, margin=60))
        assert same_program(family.at(frames), exact)


def test_networks_without_a_family_are_named_with_the_reason() -> None:
    nnet = looking("Sum(input, IfDefined(Offset(input, -100)))")
    with pytest.raises(RequestError, match="no program for all lengths: it cannot be told from short requests how"):
        nnet3.compile_family(nnet, request_for(nnet, 60))
