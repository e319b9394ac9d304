"""What is wrong and made by hand: which of it do the proofs take for right?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nnet3.engine.ir.proof.equal import PassResult, prove_equal
from nnet3.engine.runtime import plan
from nnet3.engine.runtime.proof import prove_plan
from nnet3.errors import ProofError
from tests.runtime.wrong_plans import WRONG_PLANS, small_program
from tools.plant.wrong_programs import WRONG, program


def missed() -> list[str]:
    """Returns the names of wrong programs and wrong plans that a proof takes for right ones."""
    found = []
    for name, body in WRONG.items():
        right = PassResult("", program(body, wrong=False))
        prove_equal([right, right])
        wrong = PassResult("wrong", program(body, wrong=True))
        if _is_taken(partial(prove_equal, [right, wrong])):
            found.append(name)
    computation = small_program()
    made = plan(computation)
    prove_plan(computation, made)
    for name, change in WRONG_PLANS.items():
        if _is_taken(partial(prove_plan, computation, change(made))):
            found.append(name)
    return found


def _is_taken(prove: Callable[[], None]) -> bool:
    try:
        prove()
    except ProofError:
        return False
    return True
