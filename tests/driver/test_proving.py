"""When programs that were made of others are proved, and what they cost where nobody asks for a proof."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import nnet3
from nnet3 import cn
from nnet3.decode import UtteranceComputer, UtteranceOptions
from nnet3.engine.driver import proving, task
from nnet3.engine.driver.proving import PROVE, prove_made_of_others, proves_all, proves_compiled
from nnet3.engine.ir.commands import MatrixAdd, Propagate
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.passes import pipeline
from nnet3.engine.ir.passes.pipeline import PIPELINE, Pass
from nnet3.engine.runtime import at_first_use
from nnet3.engine.runtime.link_proof import LinkProof
from nnet3.engine.runtime.planning import plan
from nnet3.errors import ProofError
from nnet3.model.requests import compile_family
from nnet3.options import CompileOptions
from tests.cn.small_networks import batch, recurrence
from tests.families.networks import BLSTM, TDNN, request_for
from tests.proved_lowering import lowering_proved


def made_by_nobody() -> NnetComputation:
    raise AssertionError("a lazy program was made")


@pytest.mark.parametrize("value", ["0", "forms", ""])
def test_a_lazy_program_is_not_made_where_nobody_asks_for_a_proof(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROVE, value)
    lazy = NnetComputation.lazy(made_by_nobody)
    prove_made_of_others(lambda: pytest.fail("lowered"), CompileOptions(), lazy, 0)
    assert lazy.is_lazy
    for options, asked in ((CompileOptions(prove=True), value), (CompileOptions(), "all")):
        monkeypatch.setenv(PROVE, asked)
        with pytest.raises(AssertionError, match="was made"):
            prove_made_of_others(lambda: pytest.fail("lowered"), options, lazy, 0)


def test_one_in_eight_is_chosen_the_same_ones_in_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(seed: str) -> list[int]:
        monkeypatch.setenv("NNET3_PROVE_SEED", seed)
        return [mark for mark in range(800) if proves_all(CompileOptions(), mark)]

    monkeypatch.setenv(PROVE, "some")
    assert chosen("") == chosen("") != chosen("1")
    assert 60 < len(chosen("")) < 140
    assert all(proves_all(CompileOptions(prove=True), mark) for mark in range(8))
    assert not proves_all(CompileOptions())
    monkeypatch.setenv(PROVE, "all")
    assert len(chosen("")) == 800


def test_some_plans_and_links_are_chosen_by_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan has the same mark each time it is made; plans for other lengths have others."""
    marks = set()
    nnet = nnet3.Nnet.from_config(TDNN, seed=1)
    for frames in (20, 21):
        program = nnet3.compile(nnet, request_for(nnet, frames))
        assert plan(program).mark == plan(program).mark
        marks.add(plan(program).mark)
    assert len(marks) == 2


def test_in_python_forms_are_proved_where_native_code_makes_it_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROVE)
    for library, expected in ((object(), True), (None, False)):
        monkeypatch.setattr(proving, "library", lambda found=library, **_: found)
        assert proves_compiled(CompileOptions()) is expected
        assert proves_compiled(CompileOptions(prove=True))
        assert not proves_all(CompileOptions())
    for value, expected in (("0", False), ("forms", True), ("some", True), ("all", True)):
        monkeypatch.setenv(PROVE, value)
        assert proves_compiled(CompileOptions()) is expected


def lose_an_operation(computation: NnetComputation) -> NnetComputation:
    result = computation.copy()
    last = max(number for number, each in enumerate(result.commands) if isinstance(each, (Propagate, MatrixAdd)))
    del result.commands[last]
    return result


@pytest.mark.parametrize("config", [TDNN, BLSTM])
def test_a_wrong_pass_is_noticed_by_compiling_in_python(
    config: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(PROVE, "forms")
    monkeypatch.setattr(pipeline, "PIPELINE", (*PIPELINE, Pass("careless", lose_an_operation)))
    nnet = nnet3.Nnet.from_config(config, seed=1)
    options, cache = CompileOptions(check=False), nnet3.ComputationCache(tmp_path)
    for frames in (20, 90, 200):
        for compile in (nnet3.compile, cache.compile):
            with pytest.raises(ProofError, match="after pass 'careless'"):
                compile(nnet, request_for(nnet, frames), options)
    assert (len(cache), list(tmp_path.iterdir())) == (0, []), "members are kept after their proof"


@pytest.mark.parametrize(("value", "expected"), [("0", 0), ("forms", 2), ("some", 2), ("all", 2)])
def test_of_a_family_the_two_are_proved_that_say_how_it_goes_on(
    value: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    proofs = list[int]()
    monkeypatch.setattr(task, "prove_results", lambda results: proofs.extend({each.first for each in results}))
    monkeypatch.setenv(PROVE, value)
    nnet, cache = nnet3.Nnet.from_config(BLSTM, seed=1), nnet3.ComputationCache()
    cache.compile(nnet, request_for(nnet, 200))
    assert cache.counts.continued == 1
    assert len(proofs) == expected
    cache.compile(nnet, request_for(nnet, 260))
    assert len(proofs) == expected


def run(computation: NnetComputation, nnet: nnet3.Nnet) -> None:
    computer = nnet3.NnetComputer(computation, nnet)
    for io in computation.inputs:
        rows = computation.submatrices[io.value].num_rows
        computer.accept_input(io.name, torch.zeros(rows, nnet.node_dim(io.name)))
    computer.run()


def compiled(nnet: nnet3.Nnet, options: CompileOptions, folder: Path) -> None:
    run(nnet3.compile(nnet, request_for(nnet, 8), options), nnet)


def continued(nnet: nnet3.Nnet, options: CompileOptions, folder: Path) -> None:
    run(nnet3.compile(nnet, request_for(nnet, 60), options), nnet)


def kept_in_a_folder(nnet: nnet3.Nnet, options: CompileOptions, folder: Path) -> None:
    nnet3.ComputationCache(folder).compile(nnet, request_for(nnet, 8), options)
    run(nnet3.ComputationCache(folder).compile(nnet, request_for(nnet, 8), options), nnet)


def of_a_family(nnet: nnet3.Nnet, options: CompileOptions, folder: Path) -> None:
    run(compile_family(nnet, request_for(nnet, 60), options).at(72), nnet)


def decoded(nnet: nnet3.Nnet, options: CompileOptions, folder: Path) -> None:
    """The third length lies between those of two programs of one family."""
    computer = UtteranceComputer(nnet, UtteranceOptions(), compile_options=options)
    for frames in (60, 120, 90):
        computer.compute(torch.zeros(frames, 3))


def of_a_computational_network(nnet: nnet3.Nnet, options: CompileOptions, folder: Path) -> None:
    net = cn.Network(recurrence(1).find("J"), compile_options=options, cache=nnet3.ComputationCache())
    net.criterion({"x": batch(3, (4, 4)), "y": batch(2, (4, 4))})


@pytest.mark.parametrize(
    "way", [compiled, continued, kept_in_a_folder, of_a_family, decoded, of_a_computational_network]
)
def test_options_reach_plans_and_links(
    way: Callable[[nnet3.Nnet, CompileOptions, Path], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(PROVE, "0")
    nnet, proofs = nnet3.Nnet.from_config(BLSTM, seed=1), list[str]()
    prove, begin = at_first_use.prove_plan, LinkProof.__init__

    def prove_plan(*args: Any) -> None:
        proofs.append("plan")
        prove(*args)

    def begin_link(*args: Any) -> None:
        proofs.append("link")
        begin(*args)

    monkeypatch.setattr(at_first_use, "prove_plan", prove_plan)
    monkeypatch.setattr(LinkProof, "__init__", begin_link)
    way(nnet, CompileOptions(), tmp_path)
    assert proofs == []
    way(nnet, CompileOptions(prove=True), tmp_path)
    assert set(proofs) == {"plan", "link"}


def test_kernels_with_indexes_of_a_bridge_look_at_their_own_rows() -> None:
    """BackpropTruncation needs the times of its rows, and no gathered node is beneath it that would say which."""
    lstm = "input dim=2 name=input\nfast-lstm-layer name=a cell-dim=2 delay=-1\noutput-layer name=output dim=2"
    bridged = cn.from_nnet(nnet3.Nnet.from_xconfig(lstm, seed=1))
    net = cn.Network(None, dict(bridged.outputs), cache=nnet3.ComputationCache())
    with lowering_proved(each=True) as proved:
        net.evaluate(next(iter(net.outputs)), {"input": batch(2, (3, 2))})
    assert proved
