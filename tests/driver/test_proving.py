"""When programs that were made of others are proved, and what they cost where nobody asks for a proof."""

from __future__ import annotations

import pytest

import nnet3
from nnet3.driver import proving
from nnet3.driver.proving import PROVE, prove_made_of_others, proves_all, proves_forms
from nnet3.errors import ProofError
from nnet3.ir.commands import MatrixAdd, Propagate
from nnet3.ir.computation import LazyComputation, NnetComputation
from nnet3.ir.passes import pipeline
from nnet3.ir.passes.pipeline import PIPELINE, Pass
from nnet3.options import CompileOptions
from tests.families.networks import BLSTM, TDNN, request_for


def made_by_nobody() -> NnetComputation:
    raise AssertionError("a lazy program was made")


@pytest.mark.parametrize("value", ["0", "forms", ""])
def test_a_lazy_program_is_not_made_where_nobody_asks_for_a_proof(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROVE, value)
    lazy = LazyComputation(made_by_nobody, 0)
    prove_made_of_others(lambda: pytest.fail("lowered"), CompileOptions(), lazy)
    assert type(lazy) is LazyComputation
    for options, asked in ((CompileOptions(prove=True), value), (CompileOptions(), "all")):
        monkeypatch.setenv(PROVE, asked)
        with pytest.raises(AssertionError, match="was made"):
            prove_made_of_others(lambda: pytest.fail("lowered"), options, lazy)


def test_in_python_forms_are_proved_where_native_code_makes_it_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROVE)
    for library, expected in ((object(), True), (None, False)):
        monkeypatch.setattr(proving, "library", lambda found=library, **_: found)
        assert proves_forms(CompileOptions()) is expected
        assert proves_forms(CompileOptions(prove=True))
        assert not proves_all(CompileOptions())
    for value, expected in (("0", False), ("forms", True), ("all", True)):
        monkeypatch.setenv(PROVE, value)
        assert proves_forms(CompileOptions()) is expected


def lose_an_operation(computation: NnetComputation) -> NnetComputation:
    result = computation.copy()
    last = max(number for number, each in enumerate(result.commands) if isinstance(each, (Propagate, MatrixAdd)))
    del result.commands[last]
    return result


@pytest.mark.parametrize("config", [TDNN, BLSTM])
def test_a_wrong_pass_is_noticed_by_compiling_in_python(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROVE, "forms")
    monkeypatch.setattr(pipeline, "PIPELINE", (*PIPELINE, Pass("careless", lose_an_operation)))
    nnet = nnet3.Nnet.from_config(config, seed=1)
    options = CompileOptions(check=False)
    for frames in (20, 200):
        for compile in (nnet3.compile, nnet3.ComputationCache().compile):
            with pytest.raises(ProofError, match="after pass 'careless'"):
                compile(nnet, request_for(nnet, frames), options)


@pytest.mark.parametrize(("value", "expected"), [("0", 0), ("forms", 2), ("all", 2)])
def test_of_a_family_the_two_are_proved_that_say_how_it_goes_on(
    value: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    proofs = []
    monkeypatch.setattr(pipeline, "prove_results", lambda results: proofs.append(len(results[0].computation.commands)))
    monkeypatch.setenv(PROVE, value)
    nnet, cache = nnet3.Nnet.from_config(BLSTM, seed=1), nnet3.ComputationCache()
    cache.compile(nnet, request_for(nnet, 200))
    assert cache.counts.continued == 1
    assert len(proofs) == expected
    cache.compile(nnet, request_for(nnet, 260))
    assert len(proofs) == expected
