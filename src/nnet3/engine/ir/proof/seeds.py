"""by_each_seed: the environment chooses the random elements of proofs, and the number of seeds for each proof.

With NNET3_PROVE_SEED="1,2,3" every proof is made three times. A verdict depending on the seed is a mistake in the
proofs, or the small chance of agreement between different programs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec

from nnet3.errors import Nnet3Error, ProofError

P = ParamSpec("P")

#: The variable of the environment that gives all proofs other random elements: any text, or several with commas.
PROVE_SEED = "NNET3_PROVE_SEED"
_ONE_OF_SEVERAL: ContextVar[str | None] = ContextVar("_ONE_OF_SEVERAL", default=None)


class SeedsDisagreeError(Nnet3Error):
    """A proof holds with some seeds and fails with others."""


def seed() -> str:
    """Returns the seed of the proof that is being made, or all of the environment's text."""
    one = _ONE_OF_SEVERAL.get()
    return os.environ.get(PROVE_SEED, "") if one is None else one


def by_each_seed(prove: Callable[P, None]) -> Callable[P, None]:
    """Returns a proof that is made once with each seed of the environment.

    Raises the first ProofError if the proofs of all seeds fail, SeedsDisagreeError if some do.
    """

    @wraps(prove)
    def proved(*args: P.args, **kwargs: P.kwargs) -> None:
        seeds = os.environ.get(PROVE_SEED, "").split(",")
        if _ONE_OF_SEVERAL.get() is not None:
            return prove(*args, **kwargs)
        errors: dict[str, ProofError] = {}
        for each in seeds:
            token = _ONE_OF_SEVERAL.set(each)
            try:
                prove(*args, **kwargs)
            except ProofError as error:
                errors[each] = error
            finally:
                _ONE_OF_SEVERAL.reset(token)
        if not errors:
            return None
        first, found = next(iter(errors.items()))
        if len(errors) < len(seeds):
            raise SeedsDisagreeError(
                f"a proof fails with {len(errors)} of the seeds {', '.join(seeds)}; with seed {first}: {found}. Either "
                "all fail or none: please report it with the network"
            ) from found
        raise found

    return proved
