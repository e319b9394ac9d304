"""Which network's kernel does what: forward, statistics, updates; and when they have become others."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from nnet3.engine.runtime.kernels import Kernels
from nnet3.engine.runtime.plan import PlannedKernel
from nnet3.errors import ExecutionError
from tests.runtime.toy_kernels import Scale

NETWORK, TO_UPDATE, TO_STORE = ({"scale": Scale()} for _ in range(3))
TRAINED, FIXED = PlannedKernel("scale", updatable=True), PlannedKernel("scale", updatable=False)


@pytest.mark.parametrize(
    ("others", "statistics", "trained", "fixed"),
    [
        ((None, None), NETWORK, "an error", None),
        ((TO_UPDATE, None), TO_UPDATE, TO_UPDATE, TO_UPDATE),
        ((TO_UPDATE, TO_STORE), TO_STORE, TO_UPDATE, TO_STORE),
        ((None, TO_STORE), TO_STORE, "an error", TO_STORE),
    ],
)
def test_who_takes_what(others: Any, statistics: Any, trained: Any, fixed: Any) -> None:
    """Kernels without parameters take statistics in the backward pass, whether the model is trained or not."""
    kernels = Kernels(NETWORK, *others)
    assert kernels.find(TRAINED) is NETWORK["scale"]
    assert kernels.for_statistics(TRAINED) is statistics["scale"]
    for need_model_derivative in (False, True):
        assert kernels.for_update(FIXED, need_model_derivative) is (None if fixed is None else fixed["scale"])
    assert kernels.for_update(TRAINED, False) is None
    if trained == "an error":
        with pytest.raises(ExecutionError, match="updates component 'scale', but no network to update was given"):
            kernels.for_update(TRAINED, True)
    else:
        assert kernels.for_update(TRAINED, True) is trained["scale"]


@pytest.mark.parametrize(
    ("which", "ask"),
    [
        (0, lambda kernels: kernels.find(TRAINED)),
        (1, lambda kernels: kernels.for_update(TRAINED, True)),
        (2, lambda kernels: kernels.for_statistics(TRAINED)),
    ],
)
def test_another_kernel_of_the_same_name_is_noticed_where_it_was_asked_for(which: int, ask: Any) -> None:
    networks = [{"scale": Scale(), "other": Scale()} for _ in range(3)]
    kernels = Kernels(*networks)
    ask(kernels)
    for number, network in enumerate(networks):
        network["other"] = Scale()
        assert kernels.are_the_same()
        before, network["scale"] = network["scale"], Scale()
        assert kernels.are_the_same() == (number != which)
        network["scale"] = before
    del networks[which]["scale"]
    assert not kernels.are_the_same()


def test_without_a_similar_name_there_is_no_hint() -> None:
    with pytest.raises(ExecutionError, match=r"^the network has no component 'scale'$"):
        Kernels({"xyz": Scale()}).find(TRAINED)
    with pytest.raises(ExecutionError, match=r"^the network to store statistics has no component 'scale' \(did you me"):
        Kernels(NETWORK, None, {"scales": Scale()}).for_statistics(TRAINED)


class Rated(Scale):
    def __init__(self, is_frozen: bool):
        super().__init__()
        self.is_frozen = is_frozen


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("to_update", [None, {}, {"scale": None}, TO_UPDATE, {"scale": Rated(True)}])
def test_what_leaves_a_frozen_kernel_as_it_is(frozen: bool, to_update: Any) -> None:
    plan = SimpleNamespace(kernels=[replace(TRAINED, is_frozen=frozen)])
    Kernels(NETWORK, to_update).check_frozen(plan)  # type: ignore[arg-type]


def test_a_frozen_kernel_that_would_change_is_an_error() -> None:
    kernels = Kernels(NETWORK, {"scale": Rated(False)})
    kernels.check_frozen(SimpleNamespace(kernels=[TRAINED]))  # type: ignore[arg-type]
    with pytest.raises(ExecutionError, match="compiled with component 'scale' frozen, and has no gradient for it"):
        kernels.check_frozen(SimpleNamespace(kernels=[replace(TRAINED, is_frozen=True)]))  # type: ignore[arg-type]
