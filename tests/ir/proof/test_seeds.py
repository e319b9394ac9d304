"""Proofs by several seeds: one verdict, or an error of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nnet3.engine.ir.commands import MatrixAdd
from nnet3.engine.ir.proof import equal
from nnet3.engine.ir.proof.equal import PassResult, prove_equal
from nnet3.engine.ir.proof.seeds import PROVE_SEED, SeedsDisagreeError, by_each_seed, seed
from nnet3.engine.runtime import plan, proof
from nnet3.engine.runtime.proof import prove_plan
from nnet3.errors import ProofError
from tests.ir.programs import training_step


@pytest.fixture(autouse=True)
def three_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROVE_SEED, "1,2,any text")


def wrong_for(*seeds: str) -> tuple[Callable[[], None], list[str]]:
    tried = list[str]()

    @by_each_seed
    def prove() -> None:
        tried.append(seed())
        if seed() in seeds:
            raise ProofError(f"it differs by {seed()}")

    return prove, tried


def test_each_proof_is_made_with_each_seed() -> None:
    prove, tried = wrong_for()
    prove()
    assert tried == ["1", "2", "any text"]
    assert seed() == "1,2,any text"
    prove, _ = wrong_for("1", "2", "any text")
    with pytest.raises(ProofError, match="it differs by 1"):
        prove()


def test_a_verdict_that_hangs_on_the_seed_is_another_error() -> None:
    prove, tried = wrong_for("2")
    with pytest.raises(SeedsDisagreeError, match="fails with 1 of the seeds 1, 2, any text; with seed 2: it differs"):
        prove()
    assert len(tried) == 3
    assert not issubclass(SeedsDisagreeError, ProofError)


def test_a_proof_within_a_proof_has_its_seed() -> None:
    inner, tried = wrong_for()
    by_each_seed(inner)()
    assert tried == ["1", "2", "any text"]


def test_programs_and_plans_are_proved_so(monkeypatch: pytest.MonkeyPatch) -> None:
    step, wrong = training_step(), training_step()
    wrong.commands = [each for each in wrong.commands if not isinstance(each, MatrixAdd)]
    bases, compare = set(), equal._compare

    def noted(*args: object) -> None:
        bases.add(seed())
        compare(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(equal, "_compare", noted)
    prove_equal([PassResult("", step), PassResult("p", step)])
    assert bases == {"1", "2", "any text"}
    with pytest.raises(ProofError, match="after pass 'p'"):
        prove_equal([PassResult("", step), PassResult("p", wrong)])
    bases.clear()

    def no_difference(*_: object) -> Iterator[str]:
        bases.add(seed())
        return iter(())

    monkeypatch.setattr(proof, "differences", no_difference)
    prove_plan(step, plan(step))
    assert bases == {"1", "2", "any text"}
