"""Families of two parameters: their members are what the compiler makes for each length and number of sequences."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnet3
from nnet3.engine.driver import compile_task
from nnet3.engine.driver.family_store import precompute_of
from nnet3.engine.families.continued import NotAffineError
from nnet3.engine.families.family import ShapeFamily
from tests.effort import at_night
from tests.families.networks import BLSTM, POOLING, TDNN, compiled, request_for, same_program
from tests.shared_data import GOLDEN, needs_shared

FEWEST = 4
SHAPES = ((2, 6), (0, 7), (5, FEWEST), (9, 64))

#: The smallest length, and by how much others are longer.
LENGTHS = {BLSTM: (21, 3), TDNN: (18, 1), POOLING: (255, 5)}


def check_members(
    nnet: nnet3.Nnet,
    frames: int,
    period: int,
    shapes: tuple[tuple[int, int], ...] = SHAPES,
    **how: bool | int,
) -> None:
    def request(k: int, sequences: int) -> nnet3.ComputationRequest:
        return request_for(nnet, frames + k * period, sequences, **how)

    family = ShapeFamily(
        [[compile_task(request(k, n).task(nnet)) for k in range(2)] for n in range(FEWEST, FEWEST + 2)]
    )
    for k, sequences in shapes:
        wanted = request(k, sequences)
        program, found = compiled(nnet, wanted), family.at(sequences - FEWEST)
        found.check(k, program)
        assert same_program(found.at(k, precompute_of(wanted.task(nnet))), program), (k, sequences)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("by_time", [False, True])
@pytest.mark.parametrize("config", [BLSTM, TDNN, POOLING])
def test_members_are_the_compiled_programs(config: str, by_time: bool, train: bool) -> None:
    nnet = nnet3.Nnet.from_config(config, seed=1)
    check_members(nnet, *LENGTHS[config], train=train, by_time=by_time)


@needs_shared
@pytest.mark.parametrize(("name", "train"), [("tdnnf_small", False), *at_night(("blstm", True))])
def test_members_of_published_networks(name: str, train: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN / "bench" / name)
    nnet = nnet3.Nnet.from_config_file(str(Path("final.config")))
    check_members(nnet, 22, 2, ((3, 64),), step=3, margin=40, train=train)


def test_programs_of_other_networks_are_refused() -> None:
    programs = [
        [compiled(nnet3.Nnet.from_config(config), request_for(nnet3.Nnet.from_config(config), f, n)) for f in (18, 19)]
        for n, config in (
            (4, TDNN),
            (
                5,
                TDNN.replace("dim=80", "dim=70")
                .replace("output-dim=80 ", "output-dim=70 ")
                .replace("input-dim=80", "input-dim=70"),
            ),
        )
    ]
    with pytest.raises(NotAffineError):
        ShapeFamily(programs)


def test_numbers_that_are_not_affine_in_sequences_are_refused() -> None:
    nnet = nnet3.Nnet.from_config(TDNN)
    members = [[compiled(nnet, request_for(nnet, f, n)) for f in (18, 19)] for n in (4, 5, 7)]
    with pytest.raises(NotAffineError, match="in sequences"):
        ShapeFamily(members)
