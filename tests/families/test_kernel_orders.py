"""Orders of rows: kernels on a grid get padding where sequences have ended, others the rows that exist."""

from __future__ import annotations

import numpy as np
import pytest

import nnet3
from nnet3.base.index import NO_TIME, N, T
from nnet3.engine.driver.ragged_family import RaggedFamily
from nnet3.engine.families.kernel_orders import KernelOrders
from nnet3.engine.families.precomputed import KernelRules
from nnet3.engine.families.ragged_rows import NEVER
from nnet3.engine.ir.program_tables import KernelRows
from nnet3.model.requests import nnet_source
from tests.driver.ragged_requests import compare, ragged_request

CONFIG = """
    input-node name=input dim=3
    component name=conv type=TdnnComponent input-dim=3 output-dim=4 time-offsets=-1,0,1
    component-node name=conv component=conv input=input
    output-node name=output input=conv
"""


#: Wants rows of the first convolution at -1, 0, 2, 3, ...: the grid has padding where all sequences are equal.
STRIDED = """
    input-node name=input dim=3
    component name=conv type=TdnnComponent input-dim=3 output-dim=4 time-offsets=0,1
    component name=next type=TdnnComponent input-dim=4 output-dim=4 time-offsets=-1,0
    component-node name=conv component=conv input=input
    component-node name=next component=next input=conv
    output-node name=output input=Round(next, 3)
"""

PICTURES = """
    input-node name=input dim=6
    component name=conv type=TimeHeightConvolutionComponent num-filters-in=2 num-filters-out=2 \
        height-in=3 height-out=3 height-offsets=-1,0,1 time-offsets=-1,0,1 required-time-offsets=0
    component-node name=conv component=conv input=input
    output-node name=output input=conv
"""


@pytest.fixture(scope="module")
def family() -> tuple[nnet3.Nnet, RaggedFamily]:
    return family_of(CONFIG)


def family_of(config: str, *, train: bool = False) -> tuple[nnet3.Nnet, RaggedFamily]:
    """A convolution over time, for sequences of all lengths."""
    nnet, cache = nnet3.Nnet.from_config(config, seed=1), nnet3.ComputationCache()
    compare(nnet, ragged_request(nnet, [20, 17, 13, 3], margin=1, train=train), cache)
    (found,) = [each for each in cache._ragged.values() if isinstance(each, RaggedFamily)]
    return nnet, found


def orders(family: tuple[nnet3.Nnet, RaggedFamily], shorter: list[int]) -> KernelOrders:
    ragged = family[1]._program
    missing = np.full(max(ragged.num_sequences, len(shorter)), NEVER)
    missing[: len(shorter)] = shorter
    exists = ragged.rows.before_end >= missing[ragged.rows.n]
    count = np.concatenate([[0], np.cumsum(exists)])
    rules = KernelRules(nnet_source(family[0]))
    return KernelOrders(ragged, exists, count, np.arange(len(shorter)), shorter[0], rules)


def test_a_grid_has_all_sequences_at_all_times(family: tuple[nnet3.Nnet, RaggedFamily]) -> None:
    """Rows of sequences that have ended are padding; the kernel is given what it precomputes of the grid."""
    found = orders(family, [4, 6, 9])
    (number,) = [n for n, entry in enumerate(found.ragged.entries) if entry is not None]
    assert found.precomputed(number)
    for wanted in found.wanted[number]:
        images = wanted.indexes.reshape(-1, 3, 3)
        is_padding = images[..., T] == NO_TIME
        assert (is_padding[1:] >= is_padding[:-1]).all(), "what has ended does not begin again"
        assert is_padding.sum(axis=0).tolist() == [0, 2, 5]
        assert ((wanted.rows < 0) == is_padding.ravel()).all()


@pytest.mark.parametrize("config", [CONFIG, STRIDED, PICTURES])
@pytest.mark.parametrize("shorter", [[4, 6, 9], [0, 0, 3], [2, 17], [5, 5, 5, 11], [1]])
def test_a_kernel_is_given_what_it_precomputes_of_the_rows(config: str, shorter: list[int]) -> None:
    found = orders(family_of(config, train=True), shorter)
    for number, entry in enumerate(found.ragged.entries):
        if entry is not None:
            made = found.precomputed(number)
            assert found._full_orders[number] is not None, "it would be searched anew for each set of lengths"
            sides = (found.renumbered(each.indexes) for each in found.wanted[number])
            expected = found.rules.precompute(KernelRows(entry.node, entry.runs_backward, *sides))
            assert made.keys() == expected.keys()
            assert all(np.array_equal(made[name], expected[name]) for name in made)


def test_sequences_of_one_length_are_in_order(family: tuple[nnet3.Nnet, RaggedFamily]) -> None:
    found = orders(family, [4, 4])
    (number,) = [n for n, entry in enumerate(found.ragged.entries) if entry is not None]
    found.precomputed(number)
    for wanted in found.wanted[number]:
        assert (np.diff(wanted.rows) > 0).all()
        assert set(wanted.indexes[:, N].tolist()) == {0, 1}


def test_regions_of_equal_rows_share_their_tables() -> None:
    """Values and derivatives of a node have one order: that of its rows."""
    found = orders(family_of(CONFIG, train=True), [4, 6, 9])
    regions = found.ragged.regions
    made: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for number, entry in enumerate(found.ragged.entries):
        if entry is not None:
            found.precomputed(number)
            for side, wanted in zip((entry.inputs, entry.outputs), found.wanted[number], strict=True):
                for region in np.flatnonzero((regions.first == side.start) & (regions.last > side.start)).tolist():
                    order = found.order(region, wanted, is_read=True)
                    assert order is not None
                    assert order.wanted is wanted
                    made.setdefault((number, side.start), set()).add((order.to_wanted, order.to_existing))
    assert made
    assert {len(tables) for tables in made.values()} == {1}
    assert len(found.tables) == 2 * len(made)


def test_rows_get_the_numbers_of_their_sequences(family: tuple[nnet3.Nnet, RaggedFamily]) -> None:
    found = orders(family, [4, 6, 9])
    other = KernelOrders(found.ragged, found.exists, found.count, np.array([7, 2, 5]), 4, found.rules)
    rows = np.array([[0, 3, 0], [2, 1, 0]], np.int32)
    np.testing.assert_array_equal(found.renumbered(rows), rows)
    assert other.renumbered(rows).tolist() == [[7, 3, 0], [5, 1, 0]]
