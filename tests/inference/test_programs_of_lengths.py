"""Programs between the shortest and the longest of a series are those that are compiled for their lengths."""

from __future__ import annotations

import pytest

import nnet3
from nnet3.engine.ir.computation import NnetComputation
from nnet3.inference.programs_of_lengths import ProgramsOfLengths
from nnet3.options import CompileOptions
from tests.families.networks import BLSTM, TDNN, compiled, request_for, same_program_or_results


@pytest.mark.parametrize("config", [TDNN, BLSTM])
def test_programs_of_lengths_between_two_are_not_asked_for(config: str) -> None:
    nnet, cache, programs = nnet3.Nnet.from_config(config, seed=1), nnet3.ComputationCache(), ProgramsOfLengths()
    asked = list[int]()
    for length in (160, 100, 161, 98, 130, 131):
        request = request_for(nnet, length, 1, train=True)

        def of_cache(length: int = length, request: nnet3.ComputationRequest = request) -> NnetComputation:
            asked.append(length)
            return cache.compile(nnet, request)

        found = programs.get("a series", length, of_cache)
        assert same_program_or_results(nnet, request, compiled(nnet, request), found)
    assert not {130, 131} & set(asked)


def test_programs_that_are_to_be_proved_are_asked_for() -> None:
    nnet, cache, programs = nnet3.Nnet.from_config(TDNN, seed=1), nnet3.ComputationCache(), ProgramsOfLengths()
    asked = list[int]()
    for length in (60, 40, 80, 50):

        def of_cache(length: int = length) -> NnetComputation:
            asked.append(length)
            return cache.compile(nnet, request_for(nnet, length, 1, train=False), CompileOptions(prove=True))

        programs.get("a series", length, of_cache)
    assert asked == [60, 40, 80, 50]
