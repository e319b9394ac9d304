"""Programs with parameters: with integers in their place they print as the members of the family do."""

from __future__ import annotations

import pytest

import nnet3
from nnet3.engine.families.symbolic import symbolic
from tests.effort import at_night
from tests.families.networks import BLSTM, POOLING, TDNN, request_for


@pytest.mark.parametrize(
    ("config", "frames", "sequences", "step", "train", "by_time"),
    [
        (BLSTM, 30, 2, 1, True, True),
        (TDNN, 60, 5, 3, True, False),
        *at_night(
            (BLSTM, 30, 5, 1, True, True),
            (BLSTM, 30, 5, 3, True, False),
            (TDNN, 60, 5, 1, False, True),
            (POOLING, 120, 5, 1, True, False),
        ),
    ],
)
def test_a_program_prints_as_the_member(
    config: str, frames: int, sequences: int, step: int, train: bool, by_time: bool
) -> None:
    nnet = nnet3.Nnet.from_config(config)
    family = nnet3.compile_family(nnet, request_for(nnet, frames, sequences, step, train=train, by_time=by_time))
    shapes = None if family._sequences_record is None else family._sequences_record.family
    assert (shapes is not None) == (sequences == 5)
    for k, n in ((1, 2), (17, 0), *at_night((0, 0), (5, 3))):
        n = n if shapes else 0
        text = str(symbolic(family.family, k, shapes, n))
        assert text == str(family.at(family.frames + k * family.step, family.sequences + n))
    assert "[at" not in str(family)


def test_rows_of_a_sequence_after_those_of_another_have_formulas() -> None:
    nnet = nnet3.Nnet.from_config(TDNN)
    text = str(nnet3.compile_family(nnet, request_for(nnet, 60, 5, margin=40, by_time=False)))
    assert (
        "m8(N * (T + 80), 3) == value: input [ (0, -40:T + 39) (1, -40:T + 39) (2, -40:T + 39) (3, -40:T + 39) ... ]"
        in text
    )
    assert "m1.CopyRows(1, m8[0, T + 80, 2T + 160, 3T + 240, ... N * (T + 80) rows])" in text


def test_iterations_that_short_members_have_not_are_not_listed() -> None:
    """A run that is cut off in the shortest member, and goes on in the others, is left out."""
    nnet = nnet3.Nnet.from_config(BLSTM)
    text = str(nnet3.compile_family(nnet, request_for(nnet, 60, 1, margin=40)))
    assert "(39:T + 39, 4:7)[T, T - 3:T - 1, T - 6:T - 4" in text
    assert "T - 18:T - 16, ... T rows]" in text
