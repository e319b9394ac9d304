"""When programs that were made of others are proved, and what they cost where nobody asks for a proof."""

from __future__ import annotations

import pytest

from nnet3.driver.proving import PROVE, prove_made_of_others
from nnet3.ir.computation import LazyComputation, NnetComputation
from nnet3.options import CompileOptions


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
