"""RestrictedAttentionComponent: against the formula for many sets of rows, statistics, configuration, files."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from nnet3 import components
from nnet3.base.index import unique_rows
from nnet3.model.components.index_arrays import load_fields
from nnet3.model.components.restricted_attention import (
    AttentionWindows,
    RestrictedAttentionComponent,
    attention_windows,
)
from tests.components.contract import component_contract, written
from tests.components.index_harness import Index, Lookup, check_against_oracle, index_case, rows_of, table

DIMS = "key-dim=3 value-dim=4 "
ALL = table(range(-40, 300), ns=range(4), xs=range(2))
STORING, NOT_STORING = 0, 4  # seeds whose first draw from 0..2 is above 0, and 0


def attention(config: str) -> RestrictedAttentionComponent:
    component = components.create("RestrictedAttentionComponent", DIMS + config)
    assert isinstance(component, RestrictedAttentionComponent)
    return component


def with_statistics(given: bool) -> RestrictedAttentionComponent:
    component = attention("num-heads=2 num-left-inputs=3 num-right-inputs=1 num-left-inputs-required=1 time-stride=3")
    if given:
        component.stats_count = 12.0
        component.posterior_stats = torch.rand(2, 5, dtype=torch.float64)
        component.entropy_stats = torch.rand(2, dtype=torch.float64)
    return component


def oracle(component: RestrictedAttentionComponent, lookup: Lookup, index: Index) -> Tensor:
    n, t, x = index
    sizes, own = component.sizes, lookup(*index)
    assert own is not None
    parts = [sizes.key_dim, sizes.value_dim, sizes.key_dim, sizes.context_dim]
    heads = []
    for head in range(sizes.num_heads):
        columns = slice(head * component.head_dim, (head + 1) * component.head_dim)
        _, _, query, biases = own[columns].split(parts)
        scores, values = [], []
        for o in range(sizes.context_dim):
            row = lookup(n, t + (o - sizes.num_left) * sizes.time_stride, x)
            key, value, _, _ = (torch.zeros_like(own) if row is None else row)[columns].split(parts)
            scores.append(biases[o] + component.key_scale * (query @ key))
            values.append(value)
        posteriors = torch.stack(scores).softmax(0)
        heads.append(posteriors @ torch.stack(values))
        if component.output_context:
            heads.append(posteriors)
    return torch.cat(heads)


ROW_SETS = {
    "one row": (table([5]), ALL),
    "regular": (table(range(7), ns=range(3)), ALL),
    "several windows": (table(range(150)), ALL),
    "every second": (table(range(0, 14, 2), ns=(1, 3)), ALL),
    "every third": (table(range(0, 12, 3), ns=range(2), xs=range(2)), ALL),
    "far apart": (table([0, 100, 200], ns=range(2)), ALL),
    "irregular": (table([0, 1, 5, 90], ns=range(2)), ALL),
    "missing at the ends": (table(range(10), ns=range(2)), table(range(10), ns=range(2))),
    "missing in between": (table(range(10), ns=range(2)), table([-1, 0, 1, 2, 3, 5, 6, 7, 9, 10], ns=range(2))),
    "different lengths": tuple(2 * [np.concatenate([table(range(9)), table(range(3, 6), ns=[2])])]),
}


@pytest.mark.parametrize(("outputs", "available"), ROW_SETS.values(), ids=ROW_SETS.keys())
@pytest.mark.parametrize(
    "config",
    [
        "num-heads=2 num-left-inputs=2 num-right-inputs=1",
        "num-left-inputs=1 num-right-inputs=2 time-stride=3 output-context=false",
        "num-left-inputs=0 num-right-inputs=2 time-stride=2 key-scale=1",
    ],
)
def test_outputs_agree_with_the_oracle(config: str, outputs: np.ndarray, available: np.ndarray) -> None:
    component = attention(f"{config} num-left-inputs-required=0 num-right-inputs-required=0")
    check_against_oracle(component, outputs, available, oracle)


def test_required_inputs_decide_what_is_computable() -> None:
    config = "num-left-inputs=3 num-right-inputs=2 num-left-inputs-required=1 num-right-inputs-required=0"
    case = index_case(attention(config), table(range(8)), table([0, 1, 2, 4, 5]))
    assert case.outputs[:, 1].tolist() == [1, 2, 5]
    case = index_case(attention("num-left-inputs=1 num-right-inputs=2 time-stride=2"), table(range(9)), table(range(9)))
    assert case.outputs[:, 1].tolist() == [2, 3, 4]


def test_windows_are_of_equal_size_and_small() -> None:
    case = index_case(attention("num-left-inputs=2 num-right-inputs=1"), table(range(150), ns=range(2)), ALL)
    assert case.plan.num_queries == 50
    assert case.plan.num_positions == 53
    case = index_case(attention("num-left-inputs=2 num-right-inputs=1"), table([0, 10, 20]), ALL)
    assert (case.plan.num_queries, case.plan.num_positions) == (1, 4)
    assert case.plan.is_permutation


def test_statistics_are_sums_of_posteriors_and_entropies() -> None:
    component = attention("num-heads=2 num-left-inputs=1 num-right-inputs=1")
    case = index_case(component, table(range(70), ns=range(2)), ALL)  # two windows each, not all queries are real
    x = torch.randn(case.rows[0], component.input_dim)
    y = torch.empty(case.rows[1], component.output_dim)
    memo = component.forward(x, y, case.plan)
    component.seed_random(NOT_STORING)
    component.store_stats(x, y, memo)
    assert component.stats_count == 0
    assert component.posterior_stats.shape == (2, 3)
    assert "entropy" not in component.info()
    component.seed_random(STORING)
    component.store_stats(x, y, memo)
    posteriors = y.view(-1, 2, 7)[:, :, 4:].double()
    assert component.stats_count == 140
    torch.testing.assert_close(component.posterior_stats, posteriors.sum(0), rtol=1e-5, atol=1e-5)
    entropies = -(posteriors * posteriors.log()).sum((0, 2))
    torch.testing.assert_close(component.entropy_stats, entropies, rtol=1e-5, atol=1e-5)
    assert component.info().endswith(" stats-count=140")
    total = attention("num-heads=2 num-left-inputs=1 num-right-inputs=1")
    total.add_(2.0, component)
    assert total.stats_count == 280
    torch.testing.assert_close(total.posterior_stats, 2 * component.posterior_stats)
    total.zero_stats()
    assert total.stats_count == 0
    assert not total.posterior_stats.any()


GOOD = "num-left-inputs=2 num-right-inputs=1 "


TestRestrictedAttention = component_contract(
    "RestrictedAttentionComponent",
    good=[f"{DIMS} num-heads=2 num-left-inputs=1 num-right-inputs=1"],
    rows=rows_of(table(range(4), ns=range(2)), ALL),
    more_files=[partial(with_statistics, False), partial(with_statistics, True)],
    file=written("RestrictedAttentionComponent", f"{DIMS} {GOOD} key-scale=0.5"),
    bad_configs=[
        (DIMS + config, message)
        for config, message in [
            ("num-left-inputs=1", "'num-right-inputs=' is missing"),
            ("num-left-inputs=0 num-right-inputs=0", "'num-right-inputs' must not be 0 if num-left-inputs is"),
            ("num-left-inputs=-1 num-right-inputs=1", "'num-left-inputs' must be >= 0"),
            (f"{GOOD} num-left-inputs-required=3", "'num-left-inputs-required' must be <= 2, got 3"),
            (f"{GOOD} num-right-inputs-required=2", "'num-right-inputs-required' must be <= 1, got 2"),
            (f"{GOOD} key-scale=1.5", "'key-scale' must be <= 1"),
            (f"{GOOD} key-scale=0", "'key-scale' must be > 0"),
            (f"{GOOD} num-heads=0", "'num-heads' must be >= 1"),
            (f"{GOOD} time-stride=0", "'time-stride' must be >= 1"),
            (f"{GOOD} heads=2", "unknown key 'heads'"),
        ]
    ],
    bad_files=[
        ("<KeyDim> 3", "<KeyDim> 0", "<KeyDim> must be >= 1"),
        ("<NumLeftInputsRequired> 2", "<NumLeftInputsRequired> 3", "<NumLeftInputsRequired> must be <= 2, got 3"),
        ("<TimeStride> 1", "<TimeStride> 2147483647", "not 4 inputs over 8589934588 frames"),
        ("<KeyScale> 0.5", "<KeyScale> 0", "<KeyScale> must be > 0"),
        ("<EntropyStats>  [ ]", "<EntropyStats>  [ 1 2 ]", "must be of sizes (1, 4) and 1, or empty"),
    ],
)


INDEXES = st.sets(st.tuples(st.integers(0, 1), st.integers(-9, 140), st.integers(0, 1)), min_size=1, max_size=30)


@given(
    outputs=INDEXES,
    stride=st.integers(1, 3),
    left=st.integers(0, 2),
    right=st.integers(0, 2),
    heads=st.integers(1, 2),
    missing=st.lists(st.booleans(), min_size=150, max_size=150),
)
def test_queries_find_their_context(
    outputs: set[tuple[int, int, int]], stride: int, left: int, right: int, heads: int, missing: list[bool]
) -> None:
    steps = range(-left, right + 1)
    wanted = [(n, t + step * stride, x) for n, t, x in sorted(outputs) for step in steps]
    inputs, _ = unique_rows(
        np.array([w for w, drop in zip(wanted, missing, strict=False) if not drop] or wanted, np.int32)
    )
    table = np.array(sorted(outputs), np.int32)
    arrays = attention_windows(inputs, table, heads, stride, left, len(steps))
    windows = AttentionWindows(**load_fields(arrays, "cpu"))

    row_of = {tuple(index): row for row, index in enumerate(inputs.tolist())}
    is_missing = np.zeros(len(windows.row_of_position), bool)
    is_missing[windows.missing.numpy()] = True
    used = np.flatnonzero(~is_missing)
    assert len(np.unique(windows.query_of_row)) == len(table) * heads
    for row, (n, t, x) in enumerate(table.tolist()):
        for head in range(heads):
            window, query = divmod(int(windows.query_of_row[row * heads + head]), windows.num_queries)
            assert window % heads == head
            for o, step in enumerate(steps):
                place = window * windows.num_positions + query * windows.query_step + o
                source = row_of.get((n, t + step * stride, x))
                assert is_missing[place] == (source is None)
                if source is not None:
                    assert windows.row_of_position[place] == source * heads + head
    places = windows.row_of_position.numpy()[used]
    assert windows.is_permutation == (
        len(used) == len(is_missing) and sorted(places) == list(range(len(inputs) * heads))
    )
