"""Tables on a device: what stays loaded when a plan takes the place of another."""

from __future__ import annotations

import numpy as np
import torch

from nnet3.engine.runtime import plan
from nnet3.engine.runtime.constants import Constants
from nnet3.engine.runtime.kernels import Kernels
from nnet3.engine.runtime.plan import PlannedKernel
from tests.runtime.programs import Program


class Loader:
    """A kernel that loads its arrays as they are."""

    def load_indexes(self, arrays: object, device: torch.device) -> object:
        return [arrays]


def test_tables_that_are_other_objects_are_loaded_again() -> None:
    entries = [{"rows": np.arange(number)} for number in range(3)]
    before = plan(Program().computation).changed(
        indexes=(np.arange(3), np.arange(4)),
        precomputed=(None, *entries),
        kernels=(PlannedKernel("loader", False),),
    )
    constants, kernels = Constants(torch.device("cpu")), Kernels({"loader": Loader()})  # type: ignore[dict-item]

    def load_all(constants: Constants) -> list[object]:
        made = [constants.index(before, number) for number in range(2)]
        return made + [constants.load(before, kernels, 0, number) for number in (1, 2, 3)]

    first = load_all(constants)
    after = before.changed(indexes=(before.indexes[0], np.arange(5)), precomputed=(None, entries[0], {}))
    kept = constants.of_plan(before, after)
    assert sorted(kept.loaded) == [(-1, 0), (0, 1)]
    assert kept.index(after, 0) is first[0]
    assert kept.load(after, kernels, 0, 1) is first[2]
    assert kept.index(after, 1).tolist() == [0, 1, 2, 3, 4]
    assert kept.load(after, kernels, 0, 2) == [{}]
    assert constants.index(before, 1) is first[1]


def test_small_entries_stay_loaded_for_plans_that_have_them_elsewhere() -> None:
    small, large = {"rows": np.arange(5)}, {"rows": np.arange(5000)}
    first = plan(Program().computation).changed(
        precomputed=(None, small, large), kernels=(PlannedKernel("loader", False),)
    )
    second, constants = first.changed(precomputed=(None, large, small)), Constants(torch.device("cpu"))
    kernels = Kernels({"loader": Loader()})  # type: ignore[dict-item]
    before = [constants.load(first, kernels, 0, number) for number in (1, 2)]
    moved = constants.of_plan(first, second)
    assert moved.load(second, kernels, 0, 2) is before[0]
    assert moved.load(second, kernels, 0, 1) is not before[1]
