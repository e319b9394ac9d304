"""SpecAugmentTimeMaskComponent."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from nnet3 import components
from nnet3.model.components.spec_augment import SpecAugmentTimeMaskComponent
from tests.components.component_text import check_round_trip, to_text
from tests.components.contract import component_contract
from tests.components.index_harness import precomputed


def create(config: str) -> SpecAugmentTimeMaskComponent:
    component = components.create("SpecAugmentTimeMaskComponent", config)
    assert isinstance(component, SpecAugmentTimeMaskComponent)
    return component


def shuffled_table(lengths: list[int], seed: int = 0) -> np.ndarray:
    """Sequences of these lengths, three frames apart, in random order."""
    rows = [(n, 3 * t - 4, 0) for n, length in enumerate(lengths) for t in range(length)]
    table = np.array(rows, dtype=np.int32).reshape(-1, 3)
    return np.random.default_rng(seed).permutation(table)


def rows_of(component: SpecAugmentTimeMaskComponent) -> tuple[int, object]:
    rows = shuffled_table([5, 9, 1])
    return 15, precomputed(component, rows, rows)


def masks(component: SpecAugmentTimeMaskComponent, rows: np.ndarray) -> list[list[int]]:
    """What each sequence is multiplied by, in order of time."""
    x = torch.ones(len(rows), component.input_dim)
    y = torch.empty_like(x)
    component.forward(x, y, precomputed(component, rows, rows))
    assert torch.equal(y, y[:, :1].expand_as(y))
    by_time = np.lexsort((rows[:, 1], rows[:, 0]))
    return [[int(y[i, 0]) for i in by_time if rows[i, 0] == n] for n in np.unique(rows[:, 0])]


def test_in_place_gives_the_same() -> None:
    component = create("dim=3 zeroed-proportion=0.4")
    rows = shuffled_table([50, 9])
    indexes = precomputed(component, rows, rows)
    x, y = torch.randn(59, 3), torch.empty(59, 3)
    both, deriv = x.clone(), x.clone()
    component.forward(x, y, indexes)
    component.backward(None, None, deriv, component.forward(x, y, indexes), None, deriv, indexes)  # type: ignore[arg-type]
    assert torch.equal(deriv, y)
    component.seed_random(1)
    component.forward(x, y, indexes)
    component.seed_random(1)
    component.forward(both, both, indexes)
    assert torch.equal(both, y)


def test_segments_alternate_and_have_bounded_lengths() -> None:
    component = create("dim=2 zeroed-proportion=0.25 time-mask-max-frames=8")
    kept, zeroed = set(), set()
    for mask in masks(component, shuffled_table([400] * 30)):
        runs = [(value, len(list(run))) for value, run in itertools.groupby(mask)]
        kept |= {length for value, length in runs[:-1] if value}
        zeroed |= {length for value, length in runs[:-1] if not value}
    assert kept == set(range(1, 25))  # M = trunc(8 * 0.75 / 0.25) = 24
    assert zeroed == set(range(1, 9))


def test_the_proportion_is_that_of_zeroed_frames() -> None:
    component = create("dim=1 zeroed-proportion=0.25")
    drawn = masks(component, shuffled_table([1] * 2000))
    assert 0.2 < sum(mask[0] for mask in drawn) / 2000 < 0.3  # a sequence begins with a kept segment: 0.25
    long = np.array(masks(component, shuffled_table([1000] * 20)))
    assert 0.22 < 1 - long.mean() < 0.3


def test_each_call_draws_anew_and_seeds_repeat() -> None:
    component, rows = create("dim=1"), shuffled_table([200])
    first, second = masks(component, rows), masks(component, rows)
    assert first != second
    component.seed_random(0)
    assert masks(component, rows) == first


def test_no_mask_in_test_mode() -> None:
    component, rows = create("dim=1"), shuffled_table([200])
    component.set_test_mode(True)
    assert masks(component, rows) == [[1] * 200]
    assert to_text(component) == (
        "<SpecAugmentTimeMaskComponent> <Dim> 1 <ZeroedProportion> 0.25 <TimeMaskMaxFrames> 10 <TestMode> "
        "</SpecAugmentTimeMaskComponent> "
    )
    check_round_trip(component)
    component.set_test_mode(False)
    component.zeroed_proportion = 0.0
    assert masks(component, rows) == [[1] * 200]


TestSpecAugmentTimeMask = component_contract(
    "SpecAugmentTimeMaskComponent",
    good=["dim=3 zeroed-proportion=0.4", "dim=3 zeroed-proportion=0", "dim=3"],
    rows=rows_of,
    bad_configs=[
        ("", "'dim=' is missing", ""),
        ("dim=2 zeroed-proportion=1.5", "must be within [0, 1], got 1.5", "1.5"),
        ("dim=2 zeroed-proportion=0.95", "leave not one frame between masks", "0.95"),
        ("dim=2 time-mask-max-frames=1", "'time-mask-max-frames' must be >= 2, got 1", "1"),
        ("dim=2 test-mode=true", "unknown key 'test-mode'", "test-mode"),
    ],
    bad_files=[
        ("<Dim> 2 <ZeroedProportion> 2", "<ZeroedProportion> must be within [0, 1], got 2"),
        ("<Dim> 2 <ZeroedProportion> 0.9 <TimeMaskMaxFrames> 1", "<TimeMaskMaxFrames> must be >= 2, got 1"),
        (
            "<Dim> 2 <ZeroedProportion> 0.9 <TimeMaskMaxFrames> 2",
            "<TimeMaskMaxFrames>: masks of up to 2 frames and a proportion of 0.9 leave not one frame",
        ),
    ],
)
