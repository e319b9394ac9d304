"""Plans of a family's members are those that are made for each alone, but for where matrices lie."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch

import nnet3
from nnet3.engine.families.continued import NotAffineError
from nnet3.engine.ir.computation import FamilyMember, NnetComputation
from nnet3.engine.ir.objects import present
from nnet3.engine.runtime import Plan, plan, plan_of
from nnet3.engine.runtime.plan_family import MemberPlans, PlanFamily
from nnet3.engine.runtime.planning import unplaced_plan
from nnet3.engine.runtime.unplaced_plan import UnplacedPlan
from tests.effort import EFFORT, nightly
from tests.families.networks import BLSTM, POOLING, TDNN, request_for
from tests.random_networks import random_network
from tests.seeds import shifted

NEAR_BLSTM = BLSTM.replace(", 3))", ", 1))")  # tables of both directions go on by one row


def programs_of(config: str, *, train: bool, sequences: int = 1) -> list[NnetComputation]:
    """Programs of a cache for several lengths, the longest neither first nor last."""
    nnet, cache = nnet3.Nnet.from_config(config, seed=1), nnet3.ComputationCache()
    nnet.set_test_mode(not train)
    lengths = random.Random(shifted(3)).sample(range(40, 90), 4)
    lengths = [100, *lengths, 171, *(length - 19 for length in lengths)]
    return [cache.compile(nnet, request_for(nnet, length, sequences, train=train)) for length in lengths]


def assert_same(found: Plan, expected: Plan) -> None:
    """They are the same but for the places of matrices."""
    assert str(found).split("\n")[1:] == str(expected).split("\n")[1:]
    (header, arrays), (other_header, other_arrays) = found.to_data(), expected.to_data()
    assert header | {"num_bytes": 0} == other_header | {"num_bytes": 0}
    assert list(arrays) == list(other_arrays)
    for name, array in arrays.items():
        both = [array, other_arrays[name]]
        if name in ("views", "spans"):
            both = [np.delete(each, 1 if name == "views" else 3, axis=1) for each in both]
        assert array.dtype == other_arrays[name].dtype
        np.testing.assert_array_equal(*both)


def assert_nothing_overlaps(made: Plan, of: UnplacedPlan) -> None:
    """Each view lies as far behind the beginning of its block as it should, and blocks that meet lie apart."""
    begin = made.spans[:, 3]
    matrices = np.flatnonzero(of.blocks[:, 0])
    end, meet = begin + of.num_bytes[matrices], of.meet()[np.ix_(matrices, matrices)]
    apart = (end[:, None] <= begin) | (end <= begin[:, None])
    assert (apart | ~meet | np.eye(len(begin), dtype=bool)).all()
    assert end.max() <= made.num_bytes


@pytest.mark.parametrize(("config", "train"), [(TDNN, True), (TDNN, False), (NEAR_BLSTM, True)])
@pytest.mark.parametrize("sequences", [1, 6])
def test_plans_of_members(config: str, train: bool, sequences: int) -> None:
    plans = 0
    for program in programs_of(config, train=train, sequences=sequences):
        if program.member is None:
            continue
        family = program.member.kept.setdefault("plan float32", PlanFamily(MemberPlans.of, "float32"))
        found, alone = family.plan(program.member.k, program), program.copy()
        if found is not None:
            plans += 1
            assert_same(found, plan(alone))
            assert_nothing_overlaps(found, unplaced_plan(alone))
            assert found.num_bytes <= 1.1 * plan(alone).num_bytes
    assert plans >= 5


def check_all_members(nnet: nnet3.Nnet, frames: int, sequences: int, *, train: bool) -> int:
    """Compares the plans of members up to 40 steps longer with those of their programs; returns how many there were."""
    cache = nnet3.ComputationCache()
    programs = [cache.compile(nnet, request_for(nnet, each, sequences, train=train)) for each in (frames, frames // 2)]
    member = programs[-1].member
    if member is None:
        return 0
    family, found = PlanFamily(MemberPlans.of, "float32"), 0
    for k in (48, 47, *range(0, 41, 1 if EFFORT > 1 else 4)):
        program = member.at(k)
        made = family.plan(k, program)
        if made is not None:
            found += 1
            alone = program.copy()
            assert_same(made, plan(alone))
            assert_nothing_overlaps(made, unplaced_plan(alone))
    return found


@pytest.mark.parametrize(("config", "frames"), [(TDNN, 80), (BLSTM, 240), (POOLING, 400)])
@pytest.mark.parametrize("sequences", [1, 2, 7, 64])
def test_plans_of_all_members(config: str, frames: int, sequences: int) -> None:
    """From the shortest on; those of programs whose calls are more in longer ones are made for each alone."""
    nnet = nnet3.Nnet.from_config(config, seed=1)
    found = check_all_members(nnet, frames, sequences, train=sequences % 2 == 1)
    assert found >= 10 or config is not TDNN


SPLICED = """
    input-node name=input dim=2
    component name=c type=AffineComponent input-dim=10 output-dim=2
    component name=tanh type=TanhComponent dim=2
    component-node name=a component=c input=Append(IfDefined(Offset(h, 2)), OFFSETS)
    component-node name=h component=tanh input=a
    output-node name=output input=h
"""


def test_a_plan_may_begin_with_a_longer_member() -> None:
    """Rows of the shortest members are more regular than those of others: these are planned alone."""
    config = SPLICED.replace("OFFSETS", "Offset(input, -2), Offset(input, -4), Offset(input, 4), input")
    nnet, cache = nnet3.Nnet.from_config(config, seed=1), nnet3.ComputationCache()
    for frames in (60, 50):
        program = cache.compile(nnet, request_for(nnet, frames))
    family, at = PlanFamily(MemberPlans.of, "float32"), present(program.member).at
    with pytest.raises(NotAffineError, match="less regular"):
        MemberPlans(program, "float32")
    assert family.plan(3, at(3)) is None
    for k in (4, 5, 6, 13, 40):
        assert_same(present(family.plan(k, at(k))), plan(at(k).copy()))


@nightly
def test_plans_of_random_networks() -> None:
    found = 0
    for seed in range(4 * EFFORT):
        nnet = random_network(shifted(seed)).nnet()
        with suppress(nnet3.Nnet3Error):
            found += check_all_members(nnet, 60 * nnet.modulus, 1 + 5 * (seed % 2), train=bool(seed % 3))
    assert found > 0


def test_one_order_of_blocks_serves_lengths_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    member = present(programs_of(TDNN, train=True)[-1].member)
    family, packings = MemberPlans(member.at(0), "float32"), list[UnplacedPlan]()
    pack = UnplacedPlan.packed

    def packed(made: UnplacedPlan) -> tuple[np.ndarray, int]:
        packings.append(made)
        return pack(made)

    ks = (2, 5, 17, 100, 400, 700)
    with monkeypatch.context() as patch:
        patch.setattr(UnplacedPlan, "packed", packed)
        plans = [family.plan(k) for k in ks]
    assert len(packings) == 1
    for k, found in zip(ks, plans, strict=True):
        alone = unplaced_plan(member.at(k))
        assert_nothing_overlaps(found, alone)
        assert found.num_bytes <= 1.05 * alone.packed()[1]


def test_a_program_is_not_made_to_be_run() -> None:
    programs = programs_of(TDNN, train=False)
    assert sum((plan_of(program, "float32") and program).is_lazy for program in programs) >= 4
    for program in programs:
        alone = program.copy()
        assert type(alone) is type(program) is NnetComputation
        assert program == alone
        assert program.num_memos == alone.num_memos


def test_a_program_that_may_have_changed_is_planned_alone() -> None:
    program = programs_of(TDNN, train=False)[-1]
    assert program.member is not None
    changed = program.copy()
    assert changed.member is None
    del changed.commands[-1]
    changed.attachments = {}
    assert plan_of(changed, "float32").num_calls < plan_of(program, "float32").num_calls


def test_members_with_other_calls_are_planned_alone() -> None:
    """The shortest has a command more: each plan is that of its program."""
    program = programs_of(TDNN, train=False)[-1]
    assert program.member is not None
    members = program.member.at

    def at(k: int) -> NnetComputation:
        found = members(k).copy()
        del found.commands[len(found.commands) - (k > 0) :]
        return found

    kept: dict[str, object] = {}
    for k in (7, 12, 5, 60, 0, 61, 12):
        made = replace(at(k), attachments={}, member=FamilyMember(k, at, program.member.entries, kept))
        assert_same(plan_of(made, "float32"), plan(at(k)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_are_the_same_bit_by_bit(dtype: torch.dtype) -> None:
    nnet, cache = nnet3.Nnet.from_config(TDNN, seed=1).to(dtype=dtype), nnet3.ComputationCache()
    results = []
    for together in (True, False):
        nnets = nnet.copy(), nnet.copy()
        rng, found = np.random.default_rng(1), []
        for frames in (90, 50, 61, 45, 61):
            request = request_for(nnet, frames, 5, train=True)
            program = cache.compile(nnet, request)
            computer = nnet3.NnetComputer(program if together else program.copy(), *nnets)
            for io in request.inputs:
                computer.accept_input(io.name, rng.normal(size=(len(io.indexes), nnet.node_dim(io.name))))
            computer.run()
            found.append(computer.get_output("output"))
            computer.accept_input("output", rng.normal(size=(5 * frames, nnet.node_dim("output"))))
            computer.run()
        results.append([*found, *(each for c in nnets[1].components.values() for each in c.parameters().values())])
    assert all(map(torch.equal, *results))
