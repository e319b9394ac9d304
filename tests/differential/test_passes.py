"""Random networks give the same with any passes: a few of what `make soak` compares for as long as asked."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from nnet3.base.index import T, X
from nnet3.engine.driver import CompileTask, at_first_use
from nnet3.engine.driver.proving import PROVE
from nnet3.engine.families.ragged_program import RaggedProgram
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.passes import pipeline
from nnet3.engine.ir.passes.pipeline import PIPELINE, Pass
from nnet3.engine.ir.passes.postpone_derivatives import InputColumns, LateSteps
from nnet3.xconfig import LAYER_TYPES
from tests.differential.comparison import problems
from tests.differential.memory import memory_problems
from tests.differential.mutants import almost_right, mutant
from tests.differential.subjects import subject
from tests.differential.variants import ALL, all_variants, drawn_variants
from tests.effort import EFFORT
from tests.random_layers import MORE_LAYERS
from tests.random_networks import ALL_LAYERS, RandomNetwork, random_network
from tests.random_stacks import random_stack, spliced_loop, stackable_layers
from tests.seeds import shifted
from tools.soak import check_seed, main

pytestmark = pytest.mark.filterwarnings("ignore")
_BLOCK = 6 if EFFORT == 1 else 25
_SPLICES, _LOOKS_AHEAD = 8, 159  # a recurrence over an input at several offsets, a loop with a negative lag
_JOINS = 52300197  # a seed whose network has rows of a matrix that live longer than the whole
_POOLS_IN_DELAY = 70002107
_ENDS_BEFORE = 71000051
_ILL_CONDITIONED = (52300234, 88100002, 52300481)
# Seeds whose networks are small, and show what is broken in a pass; 48 keeps signs that something else reads too.
_SHOWN_BY = {
    "hoist_products": 17, "postpone_derivatives": 5, "dead_code": 4, "share_copies": 5,
    "work_in_place": 3, "compress_signs": 48, "keep_inputs": 37, "pack_weights": 17, "rematerialize": 46,
}  # fmt: skip


@pytest.mark.parametrize("block", range(EFFORT))
def test_passes_change_nothing(block: int) -> None:
    """All passes, or another choice of them, drawn by the seed, in one of the types of numbers."""
    found = {}
    for seed in range(_BLOCK * block, _BLOCK * (block + 1)):
        made = subject(shifted(seed))
        if made is not None:
            chosen = ALL if seed % 2 else random.Random(seed).choice(all_variants())
            dtype = torch.float32 if seed % 3 == 0 else torch.float64
            found[shifted(seed)] = list(problems(made, [chosen], [dtype]))
    assert not {seed: different for seed, different in found.items() if different}
    assert len(found) > _BLOCK / 2


@pytest.mark.parametrize("one", PIPELINE, ids=[each.name for each in PIPELINE])
def test_a_broken_pass_is_found(one: Pass, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [mutant(each) if each is one else each for each in PIPELINE]
    monkeypatch.setattr(pipeline, "PIPELINE", tuple(broken))
    seeds = [_SHOWN_BY.get(one.name, 0), *range(40)]
    assert any(check_seed(seed, [ALL], most=1).different for seed in seeds)


@pytest.mark.skipif(shifted(0) != 0, reason="the networks are those of two seeds")
def test_mistakes_that_were_made_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that are sent in their order, whoever overwrites; ragged programs whose rows nobody has proved."""
    monkeypatch.setenv(PROVE, "all")
    assert [check_seed(seed, [ALL]).different for seed in (_SPLICES, _LOOKS_AHEAD)] == [[], []]

    def by_columns(steps: LateSteps, _: object) -> list[tuple[InputColumns, list[int]]]:
        return [(each, sorted(step.sent_by[each] for step in steps.steps)) for each in sorted(steps.steps[0].sent_by)]

    def unproved(_: CompileTask, program: NnetComputation, length: int) -> RaggedProgram:
        return RaggedProgram(program, lambda info: length - 1 - np.asarray(info.indexes)[:, T].astype(np.int64))

    monkeypatch.setattr(LateSteps, "in_iterations", by_columns)
    monkeypatch.setattr(at_first_use, "program_of_frames", unproved)
    for seed in (_SPLICES, _LOOKS_AHEAD):
        assert "differs in" in check_seed(seed, [ALL], most=1).different[0]  # by a proof


def test_a_pass_that_takes_more_memory_than_it_states_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    modest = [replace(each, adds_matrices=False) for each in PIPELINE]
    monkeypatch.setattr(pipeline, "PIPELINE", tuple(modest))
    found = next(found for seed in range(40) if (found := check_seed(seed, [ALL], most=1).different))
    assert re.match(r"hoist_products: \d+ -> \d+ bytes, allowed \d+", found[0])


@pytest.mark.parametrize("seed", _ILL_CONDITIONED[:EFFORT])
def test_rounding_is_told_from_a_mistake(seed: int) -> None:
    """Natural gradient makes more of rounding than a fixed bound allows; a factor that is off by 1e-7 is still seen."""
    made = subject(seed)
    assert made is not None
    chosen = [each for each in all_variants() if each.name in ("hoist_products alone", "all but move_sizing")]
    assert list(problems(made, chosen, [torch.float64])) == []
    almost = replace(PIPELINE[-1], function=almost_right(PIPELINE[-1].function))
    with mock.patch.object(pipeline, "PIPELINE", (*PIPELINE[:-1], almost)):
        made = subject(seed)
        assert made is not None
        assert next(problems(made, [ALL], [torch.float64]), None) is not None


def test_a_memo_has_the_rows_that_are_gone_back_over() -> None:
    """Pooling in the memory of what delays it, in sequences of two lengths: forward it had fewer rows than backward."""
    made = subject(_POOLS_IN_DELAY)
    assert made is not None
    assert list(problems(made, [ALL])) == []


def test_what_is_made_again_is_there_until_the_last_that_is_made_of_it() -> None:
    """A value wanted early going backward is what another one is made of, which is wanted when it has ended."""
    made = subject(_ENDS_BEFORE)
    assert made is not None
    assert list(problems(made, [ALL])) == []


@pytest.mark.skipif(shifted(0) != 0, reason="the network is that of one seed")
def test_a_place_that_lives_longer_than_its_largest_matrix_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    made = subject(_JOINS)
    assert made is not None
    (lowered,) = made.lowered()
    assert list(memory_problems(lowered)) == []
    modest = [replace(each, joins_matrices=False) for each in PIPELINE]
    monkeypatch.setattr(pipeline, "PIPELINE", tuple(modest))
    assert list(memory_problems(lowered)) == ["share_copies: 2544 -> 2568 bytes, allowed 2544"]


def test_networks_are_various() -> None:
    """Each layer is drawn, and most requests go backward."""
    assert set(MORE_LAYERS) < set(ALL_LAYERS)
    made = [random_network(seed, layers=ALL_LAYERS) for seed in range(200)]
    types = Counter(kind for each in made for kind in set(re.findall(r"type=(\w+)Component", each.config)))
    wanted = {"TimeHeightConvolution", "RestrictedAttention", "LstmNonlinearity", "GruNonlinearity", "BatchNorm"}
    wanted |= {"OutputGruNonlinearity", "BackpropTruncation", "Tdnn", "StatisticsPooling", "RectifiedLinear"}
    assert all(types[kind] >= 10 for kind in wanted)
    assert sum(each.request.need_model_derivative for each in made) > 50
    assert sum("Distribute" in each.config and _has_x(each) for each in made) >= 5
    assert sum(len(each.request.inputs) > len(re.findall("input-node", each.config)) for each in made) >= 10


def test_recurrences_and_stacks_are_various() -> None:
    """Every layer type of xconfigs that may stand in a stack, and offsets in any order."""
    loops = [spliced_loop(seed) for seed in range(200)]
    delays = Counter(re.findall(r"Offset\(h, (-?\d)\)", " ".join(each.config for each in loops)))
    assert set(delays) == {"-3", "-2", "-1", "1", "2", "3"}
    assert min(delays.values()) > 10
    spliced = [re.findall(r"(?:Offset\((?:input|below), )(-?\d)", each.config) for each in loops]
    orders = [list(map(int, each)) for each in spliced if len(each) > 1]
    assert sum(each == sorted(each) for each in orders) > 10
    assert sum(each == sorted(each, reverse=True) for each in orders) > 10
    assert sum(map(_has_x, loops)) > 20
    assert sum(len(each.request.inputs) > 1 for each in loops) > 10
    others = {"input", "output", "output-layer", "fixed-affine-layer", "idct-layer"}
    assert {layer for layer, _ in stackable_layers()} == set(LAYER_TYPES) - others
    stacks = " ".join(random_stack(seed).config for seed in range(40))
    assert all(f"type={kind}Component" in stacks for kind in ("LstmNonlinearity", "GruNonlinearity", "Tdnn"))


def _has_x(made: RandomNetwork) -> bool:
    return any((np.asarray(each.indexes)[:, X] != 0).any() for each in made.request.outputs)


def test_the_soak_draws_each_choice_of_passes() -> None:
    """Every seed proves what all passes make and those up to each level; a few dozen seeds draw all the others."""
    drawn = [set(drawn_variants(seed)) for seed in range(60)]
    assert set.union(*drawn) == set(all_variants())
    assert {each.name for each in set.intersection(*drawn)} == {"all passes", "-O1", "-O2", "-O3"}


def test_a_seed_is_repeated_by_one_command() -> None:
    done = CliRunner().invoke(main, ["--seed", "3"])
    printed = done.output.splitlines()
    assert (done.exit_code, printed[0], printed[-1]) == (0, "seed 3", "nothing is different")
