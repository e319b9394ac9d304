"""What kernels precompute in members of families: continued if they promise it, else made anew."""

from __future__ import annotations

import numpy as np
import pytest

import nnet3
from nnet3.engine.driver import compile_task
from nnet3.engine.driver.family_store import precompute_of
from nnet3.engine.families.family import ProgramFamily, ShapeFamily
from nnet3.engine.families.precomputed import Entry
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import KernelRows
from tests.effort import at_night
from tests.families.networks import compiled, request_for, same_program

#: Lines of a component of 6 columns, and whether its arrays go on.
COMPONENTS = {
    "TdnnComponent input-dim=6 output-dim=6 time-offsets=-3,0,3": True,
    "TimeHeightConvolutionComponent num-filters-in=2 num-filters-out=2 height-in=3 height-out=3 "
    "height-offsets=-1,0,1 time-offsets=-1,0,1": True,
    "StatisticsExtractionComponent input-dim=6 input-period=1 output-period=1 include-variance=false": True,
    "SpecAugmentTimeMaskComponent dim=6 zeroed-proportion=0.2 time-mask-max-frames=5": True,
    "GeneralDropoutComponent dim=6 dropout-proportion=0.2": True,
    "GeneralDropoutComponent dim=6 dropout-proportion=0.2 time-period=7": False,
    "BackpropTruncationComponent dim=6 zeroing-interval=10 recurrence-interval=2": True,
    "RestrictedAttentionComponent num-heads=1 key-dim=2 value-dim=4 num-left-inputs=2 num-right-inputs=3 "
    "time-stride=1": False,
}


def network(line: str) -> nnet3.Nnet:
    dim = 14 if "RestrictedAttention" in line else 6
    out = {"RestrictedAttention": 10, "StatisticsExtraction": 7}.get(line.split("Component")[0], 6)
    return nnet3.Nnet.from_config(f"""
        input-node name=input dim=6
        component name=b type=NaturalGradientAffineComponent input-dim=6 output-dim={dim}
        component-node name=b component=b input=input
        component name=c type={line}
        component-node name=c component=c input=b
        component name=a type=NaturalGradientAffineComponent input-dim={out} output-dim=4
        component-node name=a component=a input=c
        output-node name=output input=a
    """)


def assert_same_rows(program: NnetComputation, exact: NnetComputation) -> None:
    """Entries have been made of the same rows, whether they go on or are made anew."""
    for one, other in zip(program.precomputed_rows, exact.precomputed_rows, strict=True):
        assert (one.node, one.runs_backward, one.go_on) == (other.node, other.runs_backward, other.go_on)
        np.testing.assert_array_equal(one.inputs, other.inputs)
        np.testing.assert_array_equal(one.outputs, other.outputs)


@pytest.mark.parametrize("line", COMPONENTS)
def test_entries_are_those_of_the_compiled_programs(line: str) -> None:
    nnet = network(line)

    def request(frames: int, sequences: int) -> nnet3.ComputationRequest:
        return request_for(nnet, frames, sequences, train=True)

    family = ShapeFamily([[compile_task(request(f, n).task(nnet)) for f in (20, 21)] for n in (4, 5)])
    for frames, sequences in ((80, 9), (33, 4), *at_night((150, 6))):
        wanted = request(frames, sequences)
        make, made = precompute_of(wanted.task(nnet)), []

        def precompute(rows: KernelRows, make=make, made=made) -> Entry:
            made.append(rows.node)
            return make(rows)

        program, exact = family.at(sequences - 4).at(frames - 20, precompute), compiled(nnet, wanted)
        assert same_program(program, exact)
        assert made == ([] if COMPONENTS[line] else ["c"])
        for one, other in zip(program.precomputed[1:], exact.precomputed[1:], strict=True):
            assert {name: (a.dtype, a.shape) for name, a in (one or {}).items()} == {
                name: (a.dtype, a.shape) for name, a in (other or {}).items()
            }
        assert_same_rows(program, exact)


def test_entries_of_a_recurrence_come_once_for_each_period() -> None:
    """Those of a dropout, which are made anew, between those of a truncation, which go on."""
    nnet = nnet3.Nnet.from_config("""
        input-node name=input dim=6
        component name=a type=NaturalGradientAffineComponent input-dim=12 output-dim=6
        component name=c type=GeneralDropoutComponent dim=6 dropout-proportion=0.2 time-period=7
        component name=t type=BackpropTruncationComponent dim=6 zeroing-interval=10 recurrence-interval=1
        component-node name=a component=a input=Append(input, IfDefined(Offset(t, -1)))
        component-node name=c component=c input=a
        component-node name=t component=t input=c
        output-node name=output input=t
    """)
    family = ProgramFamily([compile_task(request_for(nnet, f, 2, train=True).task(nnet)) for f in (18, 19)])
    request = request_for(nnet, 50, 2, train=True)
    program, exact = family.at(32, precompute_of(request.task(nnet))), compiled(nnet, request)
    assert same_program(program, exact)
    assert_same_rows(program, exact)
    assert len(exact.precomputed) > 100
