"""GeneralDropoutComponent."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import components
from nnet3.model.components.dropout import GeneralDropoutComponent, GeneralDropoutIndexes
from tests.components.contract import component_contract
from tests.components.index_harness import precomputed


def create(config: str) -> GeneralDropoutComponent:
    component = components.create("GeneralDropoutComponent", config)
    assert isinstance(component, GeneralDropoutComponent)
    return component


def table(num_sequences: int, num_frames: int, first_t: int = 0) -> np.ndarray:
    t, n = np.meshgrid(np.arange(num_frames) + first_t, np.arange(num_sequences), indexing="ij")
    return np.stack([n.ravel(), t.ravel(), np.zeros(n.size)], 1).astype(np.int32)


def indexes_of(component: GeneralDropoutComponent, rows: np.ndarray) -> GeneralDropoutIndexes:
    return precomputed(component, rows, rows)


def output(config: str, rows: np.ndarray, seed: int = 0) -> torch.Tensor:
    """The output for an input of ones: what is multiplied by."""
    component = create(config)
    component.seed_random(seed)
    x = torch.ones(len(rows), component.input_dim)
    y = torch.empty_like(x)
    component.forward(x, y, indexes_of(component, rows))
    return y


CONFIGS = [
    "dim=6 block-dim=3 dropout-proportion=0.3",
    "dim=6 time-period=2 dropout-proportion=0.3",
    "dim=6 continuous=true dropout-proportion=0.2",
    "dim=6 block-dim=6 specaugment-max-proportion=0.5 specaugment-max-regions=2",
    "dim=6 dropout-proportion=0",
    "dim=6 test-mode=true",
]


@pytest.mark.parametrize("config", CONFIGS)
def test_in_place_gives_the_same(config: str) -> None:
    component = create(config)
    indexes = indexes_of(component, table(3, 4))
    x, y_deriv = torch.randn(12, 6), torch.randn(12, 6)
    y, x_deriv, both, both_derivs = torch.empty_like(x), torch.empty_like(x), x.clone(), y_deriv.clone()
    memo = component.forward(x, y, indexes)
    component.backward(None, None, y_deriv, memo, None, x_deriv, indexes)  # type: ignore[arg-type]
    component.backward(None, None, both_derivs, memo, None, both_derivs, indexes)  # type: ignore[arg-type]
    component.seed_random(5)
    component.forward(x, y, indexes)
    component.seed_random(5)
    component.forward(both, both, indexes)
    assert torch.equal(both, y)
    assert torch.equal(both_derivs, x_deriv)


def test_who_shares_a_mask() -> None:
    rows = table(3, 6, first_t=-2)
    indexes = indexes_of(create("dim=4 time-period=4"), rows)
    assert indexes.num_mask_rows == 6  # t = -2, -1 | 0..3 for each sequence
    groups = [(n, t // 4) for n, t, _ in rows.tolist()]
    shared = indexes.mask_row_of_row
    for i, group in enumerate(groups):
        assert [other == group for other in groups] == (shared == shared[i]).tolist()
    assert indexes_of(create("dim=4"), rows).num_mask_rows == 3


def test_rows_in_the_order_of_time_have_the_same_table_for_all_lengths() -> None:
    component, shorter = create("dim=4"), table(3, 9)[:-1]
    assert [indexes_of(component, table(3, length)).mask_row_of_row.tolist() for length in (4, 9)] == [[0, 1, 2]] * 2
    assert len(indexes_of(component, shorter).mask_row_of_row) == len(shorter)


@pytest.mark.parametrize("config", ["dim=6 block-dim=3 dropout-proportion=0.3", "dim=6 continuous=true"])
def test_a_sequence_has_its_mask_in_any_order_of_rows(config: str) -> None:
    rows = table(3, 5)
    order = np.lexsort((rows[:, 1], rows[:, 0]))  # sequence after sequence
    assert torch.equal(output(config, rows)[order], output(config, rows[order]))
    assert torch.equal(output(config, rows)[:-1], output(config, rows[:-1]))


def test_rows_and_blocks_share_masks_and_the_rest_is_rescaled() -> None:
    y = output("dim=400 block-dim=200 dropout-proportion=0.2", table(10, 3))
    assert torch.equal(y[:, :200], y[:, 200:])
    assert torch.equal(y[:10], y[10:20])
    assert y.unique().tolist() == [0, 1.25]
    assert abs(float(y.mean()) - 1) < 0.05
    assert len(y[:10].unique(dim=0)) == 10


def test_a_continuous_mask_is_uniform() -> None:
    y = output("dim=400 dropout-proportion=0.25 continuous=true", table(10, 1))
    assert 0.5 <= float(y.min()) < 0.51
    assert 1.49 < float(y.max()) <= 1.5


def test_everything_can_be_dropped() -> None:
    assert float(output("dim=4 dropout-proportion=1", table(2, 2)).abs().sum()) == 0


def zeroed_ranges(mask: torch.Tensor) -> list[int]:
    """For each row, into how many ranges of the circle of columns its zeros fall."""
    return ((mask == 0) & (mask.roll(1, 1) != 0)).sum(1).tolist()


def test_specaugment_zeroes_one_range_of_the_circle() -> None:
    config = "dim=20 specaugment-max-proportion=0.25 dropout-proportion=0.9"
    y = output(config, table(2000, 1))
    assert y.unique().tolist() == [0, 1]
    num_zeroed = (y == 0).sum(1)
    assert num_zeroed.unique().tolist() == [0, 1, 2, 3, 4, 5]  # at most trunc(20 * 0.25 + 0.5), all as likely
    assert float((num_zeroed.bincount() / 2000 - 1 / 6).abs().max()) < 0.04
    assert max(zeroed_ranges(y)) == 1
    assert float((y.mean(0) - (1 - 2.5 / 20)).abs().max()) < 0.05  # anywhere on the circle


def test_specaugment_regions_split_the_range_but_keep_its_size() -> None:
    y = output("dim=20 specaugment-max-proportion=0.25 specaugment-max-regions=2", table(2000, 1))
    num_zeroed, ranges = (y == 0).sum(1), zeroed_ranges(y)
    assert int(num_zeroed.max()) == 5
    assert set(ranges) == {0, 1, 2}
    more = output("dim=20 specaugment-max-proportion=0.25 specaugment-max-regions=4", table(2000, 1))
    assert int((more == 0).sum(1).max()) == 5
    assert 2 < max(zeroed_ranges(more)) <= 4


@pytest.mark.parametrize("block_dim", [1, 2, 5, 8, 11])
def test_specaugment_flip_follows_the_definition(block_dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One flip of a known mask, element by element: (s + i) and (s + h - i) change places for i < h // 2."""
    component = create(f"dim={block_dim} specaugment-max-proportion=0.5 specaugment-max-regions=2")
    draws = iter([2, 1, 3])  # columns zeroed, where they begin, where the flip begins
    monkeypatch.setattr(component, "_integers", lambda rows, bound: torch.tensor([[next(draws) % bound]]))
    most = int(block_dim * 0.5 + 0.5)
    expected = np.ones(block_dim, dtype=bool)
    expected[(1 % block_dim + np.arange(2 % (most + 1))) % block_dim] = False
    start, half = 3 % block_dim, block_dim // 2
    for i in range(half // 2):
        one, two = (start + i) % block_dim, (start + half - i) % block_dim
        expected[one], expected[two] = expected[two], expected[one]
    assert component._specaugment_mask(1).tolist() == [expected.tolist()]


def test_info_shows_what_is_not_default() -> None:
    config = "dim=6 block-dim=3 time-period=2 specaugment-max-proportion=0.5 specaugment-max-regions=2"
    assert create(config).info() == (
        "GeneralDropoutComponent, dim=6, block-dim=3, dropout-proportion=0.5, specaugment-max-proportion=0.5, "
        "specaugment-max-regions=2, time-period=2"
    )
    assert create("dim=6 continuous=true").info() == (
        "GeneralDropoutComponent, dim=6, block-dim=6, dropout-proportion=0.5, continuous=true"
    )


TestGeneralDropout = component_contract(
    "GeneralDropoutComponent",
    good=CONFIGS,
    rows=lambda component: (12, indexes_of(component, table(3, 4))),  # type: ignore[arg-type]
    bad_configs=[
        ("block-dim=3", "'dim=' is missing", ""),
        ("dim=4 block-dim=3", "'block-dim' must divide dim=4, got 3", "3"),
        ("dim=4 dropout-proportion=1.5", "must be within [0, 1], got 1.5", "1.5"),
        ("dim=4 specaugment-max-proportion=1.5", "must be within [0, 1], got 1.5", "1.5"),
        ("dim=4 specaugment-max-proportion=0.5 continuous=true", "'continuous' cannot be combined", "true"),
        ("dim=4 specaugment-max-proportion=0.5 specaugment-max-regions=0", "must be >= 1, got 0", "0"),
        ("dim=4 time-period=-1", "'time-period' must be >= 0", "-1"),
    ],
    bad_files=[
        ("<Dim> 4 <BlockDim> 3", "<BlockDim> must divide dim=4, got 3"),
        ("<Dim> 4 <BlockDim> 2 <TimePeriod> -1", "<TimePeriod> must be >= 0, got -1"),
        ("<Dim> 4 <BlockDim> 2 <TimePeriod> 0 <DropoutProportion> -1", "must be within [0, 1], got -1"),
        (
            "<Dim> 4 <BlockDim> 2 <TimePeriod> 0 <DropoutProportion> 0 <SpecAugmentMaxProportion> 0.5 "
            "<SpecAugmentMaxRegions> 0",
            "<SpecAugmentMaxRegions> must be >= 1, got 0",
        ),
    ],
)
