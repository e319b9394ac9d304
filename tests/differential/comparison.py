"""Comparison of what a network gives when it is compiled with different passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from nnet3.engine.ir.proof.equal import PassResult, prove_equal
from nnet3.engine.ir.repeats import unrolled
from nnet3.errors import ProofError
from tests.differential.memory import memory_problems
from tests.differential.subjects import Subject
from tests.differential.variants import ALL, PLAIN, Variant

BOUNDS = {torch.float64: 1e-10, torch.float32: 1e-5}
_ROUNDINGS = 16
# More draws where a few show less. Some steps of natural gradient hang on rounding in one case of twenty.
_DRAWS, _DRAWS_OF_CHANGES = (3, 12), (3, 12, 60)


def problems(
    subject: Subject, variants: Sequence[Variant], dtypes: Sequence[torch.dtype] = (torch.float64, torch.float32)
) -> Iterator[str]:
    """Yields what is different with passes, and which passes need more memory than they state.

    In float64 all of `variants` are compared, in float32 the first and the last of them.
    """
    for lowered in subject.lowered():
        yield from memory_problems(lowered, subject.after)
    for dtype in dtypes:
        compared = variants if dtype == torch.float64 else (variants[0], variants[-1])
        expected = subject.results(PLAIN, dtype)
        for variant in compared:
            found = subject.results(variant, dtype)
            if found is expected:
                continue
            if found.keys() != expected.keys():
                yield f"{variant.name}: gives {sorted(found)}, expected {sorted(expected)}"
                continue
            for name in expected:
                error, bound = _norm(found[name], expected[name]), BOUNDS[dtype] * _scale(expected[name])
                if error <= bound or not expected[name].isfinite().all():  # it overflows whatever the passes do
                    continue
                for draws in _DRAWS_OF_CHANGES if name.startswith("change of ") else _DRAWS:
                    bound = max(bound, _ROUNDINGS * _sensitivity(subject, name, dtype, draws))
                    if error <= bound:
                        break
                else:
                    yield f"{variant.name}: {name} in {dtype} is off by {error:.1e}, allowed are {bound:.1e}"


def unproved(subject: Subject, variants: Sequence[Variant]) -> Iterator[str]:
    """Yields what proofs find different: of programs that several variants have in common, once."""
    plain = subject.programs(PLAIN)
    for number, lowered in enumerate(plain):
        results: list[PassResult] = []
        for variant in variants:
            program = subject.programs(variant)[number]
            if all(program is not known.computation for known in results):
                results.append(PassResult(variant.name, program))
        try:
            prove_equal([PassResult("", lowered), *results])
        except ProofError as error:
            yield str(error)


def changed_by(subject: Subject) -> set[str]:
    """Returns the passes that change one of the programs, if all are run."""
    found = set()
    for program in map(unrolled, subject.lowered()):
        for each in ALL.passes():
            before, program = program, subject.after(each, program)
            found |= {each.name} if program is not before else set()
    return found


def _sensitivity(subject: Subject, name: str, dtype: torch.dtype, draws: int) -> float:
    """How far a result is off without passes because numbers are rounded: the most of some draws.

    Where numbers cancel, few rows are normalized, or natural gradient divides by what is almost nothing, that is more
    than the bounds. It is seen from inputs and parameters that are off by a unit in the last place, and in float32 from
    what float64 gives.
    """
    expected = subject.results(PLAIN, dtype)[name]
    others = [*subject.results_of_disturbed(dtype, draws), subject.results(PLAIN, torch.float64)]
    return max(_norm(other[name], expected) for other in others)


def _norm(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected.double()).norm())


def _scale(expected: Tensor) -> float:
    return max(1.0, float(expected.double().norm()))
