"""Sums of products as one kernel: what is taken in, what stays, and the same numbers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.cn import fusing
from nnet3.cn.fusing import ELEMENTS, PRODUCT, VALUE, SumOfProducts, SumTerm, find_sums
from nnet3.cn.node import Node
from nnet3.engine.driver import ComputationCache
from nnet3.engine.driver.proving import PROVE
from nnet3.errors import ProofError
from nnet3.options import CompileOptions
from tests.cn.random_loops import random_loop_graph
from tests.cn.reference import compare
from tests.cn.sums_as_algebra import Lowered, Run, lowered_programs, prove_same_sums
from tests.effort import draws
from tests.seeds import RANDOM, shifted

ROWS, DIM, INNER = 4, 3, 5
TERMS = [[(VALUE, 1.0)], [(PRODUCT, 1.0), (PRODUCT, -1.0)], [(ELEMENTS, 1.0), (ELEMENTS, -1.0)], [(VALUE, -1.0)]]


def kernel(terms: list[tuple[str, float]], of_columns: bool) -> tuple[SumOfProducts, list[torch.Tensor]]:
    """A sum, and operands: the first one of a product element by element, and values but the first, may be columns."""
    operands: list[torch.Tensor] = []
    for place, (kind, _) in enumerate(terms):
        sizes = {
            VALUE: [(1 if of_columns and place else ROWS, DIM)],
            PRODUCT: [(INNER, DIM), (ROWS, INNER)],
            ELEMENTS: [(1 if of_columns else ROWS, DIM), (ROWS, DIM)],
        }[kind]
        operands += [torch.from_numpy(RANDOM.normal(size=size)) for size in sizes]
    return SumOfProducts(terms), operands


def oracle(terms: list[tuple[str, float]], operands: list[torch.Tensor]) -> torch.Tensor:
    total, left = torch.zeros(ROWS, DIM, dtype=torch.float64), iter(operands)
    for kind, factor in terms:
        first = next(left)
        value = first if kind == VALUE else next(left) @ first if kind == PRODUCT else first * next(left)
        total = total + factor * value
    return total


CASES = [
    [term for some in chosen for term in some]
    for number in range(1, len(TERMS) + 1)
    for chosen in itertools.combinations(TERMS, number)
    if len(chosen[0]) + number > 2 and any(factor == 1.0 for some in chosen for _, factor in some)
]


@pytest.mark.parametrize("of_columns", [False, True])
@pytest.mark.parametrize("terms", CASES, ids=str)
def test_values_and_gradients_are_those_of_the_terms(terms: list[tuple[str, float]], of_columns: bool) -> None:
    operation, operands = kernel(terms, of_columns)
    for operand in operands:
        operand.requires_grad_()
    expected = oracle(terms, operands)
    gradient = torch.from_numpy(RANDOM.normal(size=(ROWS, DIM)))
    wanted = torch.autograd.grad(expected, operands, gradient)
    values = [operand.detach() for operand in operands]
    output = torch.full((ROWS, DIM), torch.nan, dtype=torch.float64)
    operation.evaluate(values, output)
    torch.testing.assert_close(output, expected.detach())
    empty = output.new_zeros(0, 0)
    for accumulate in (False, True):
        for child, (value, right) in enumerate(zip(values, wanted, strict=True)):
            needed = operation.needs_of_gradient(child)
            given = [each if place in needed else empty for place, each in enumerate(values)]
            dx = torch.full_like(value, 2.0 if accumulate else torch.nan)
            operation.compute_partial_gradient(child, given, empty, gradient, None, dx, accumulate)
            torch.testing.assert_close(dx, right + 2.0 * accumulate)


def test_in_the_place_of_the_first_value() -> None:
    terms = [(VALUE, 1.0), (PRODUCT, 1.0), (ELEMENTS, 1.0)]
    operation, operands = kernel(terms, True)
    expected = oracle(terms, operands)
    operation.evaluate(operands, operands[0])
    torch.testing.assert_close(operands[0], expected)


def fused(net: cn.Network, root: Node, kept: tuple[str, ...] = (), *, hoists: bool = True) -> dict[str, list[str]]:
    """The sums below a node, with the kinds of their terms, those summed before a loop in brackets."""
    graph = net._nodes
    sums, taken = find_sums(graph.below((root,)), graph.composites, (), {root, *map(graph.find, kept)}, hoists=hoists)
    assert not taken & set(sums)
    found = {}
    for node, each in sums.items():
        found[graph.names[node]] = [t.kind for t in each.terms] + [f"({t.kind})" for t in each.early]
    return found


def recurrence() -> tuple[cn.Network, Node]:
    x, d = cn.input("x", 3), cn.delay(None, dim=4, name="d")
    before = cn.plus(cn.times(cn.parameter("W", (4, 3)), x, name="Wx"), cn.parameter("b", (4, 1)), name="before")
    product = cn.times(cn.parameter("R", (4, 4)), d, name="Rd")
    h = d.connect(cn.tanh(cn.plus(before, product, name="sum"), name="h"))
    return cn.Network(cn.squared_norm(h, name="J"), {"h": h}, dtype=torch.float64), h


def test_what_is_known_before_a_loop_is_summed_before_it() -> None:
    net, h = recurrence()
    assert fused(net, h) == {"sum": ["product", "(value)", "(product)"]}
    batch = {"x": cn.sequences([RANDOM.normal(size=(3, n)) for n in (4, 2)])}
    kernels = [line.partition(": ")[2] for line in str(net.program(batch)).splitlines() if ".Propagate" in line]
    assert [line.partition(".")[0] for line in kernels[:3]] == ["sum:early", "sum", "h"]
    compare(net, batch)


@pytest.mark.parametrize(("cells", "expected"), [(12, ["value", "product", "product"]), (11, None)])
def test_short_products_stay_in_loops_where_nothing_is_hoisted(cells: int, expected: list[str] | None) -> None:
    x, d = cn.input("x", 3), cn.delay(None, dim=cells, name="d")
    before = cn.macros.affine(x, cells, name="before")
    h = d.connect(cn.tanh(cn.plus(before, cn.parameter("R", (cells, cells)) @ d, name="sum"), name="h"))
    net = cn.Network(outputs={"h": h})
    assert fused(net, h, hoists=False)["sum"] == (expected or fused(net, h)["sum"])


@pytest.mark.parametrize("kept", ["before", "Wx", "Rd"])
def test_what_somebody_wants_stays(kept: str) -> None:
    net, h = recurrence()
    found = fused(net, h, (kept,))
    assert (
        found
        == {
            "before": {"before": ["value", "product"], "sum": ["value", "product"]},
            "Wx": {"sum": ["product", "(value)", "(value)"]},
            "Rd": {"sum": ["value", "(value)", "(product)"]},
        }[kept]
    )
    batch = {"x": cn.sequences([RANDOM.normal(size=(3, n)) for n in (4, 2)])}
    assert list(net.gradients(batch, wrt=[kept])) == [*net.gradients(batch), kept]


def test_a_product_with_two_users_stays() -> None:
    x = cn.input("x", 3)
    product = cn.parameter("W", (3, 3)) @ x
    sums = cn.plus(product, x, name="s")
    assert fused(cn.Network(outputs=[sums]), sums) == {"s": ["value", "product"]}
    y = cn.element_times(sums, product, name="y")
    assert fused(cn.Network(outputs=[y]), y) == {}


def test_signs_and_diagonals() -> None:
    x, y = cn.input("x", 3), cn.input("y", 3)
    d = cn.parameter("d", (3, 1), 0.5)
    total = cn.minus(cn.minus(x, cn.diag_times(d, y)), cn.parameter("W", (3, 3)) @ y, name="total")
    net = cn.Network(cn.squared_norm(total), dtype=torch.float64)
    assert fused(net, total) == {"total": ["value", "product", "elements"]}
    batch: dict[str, Any] = {name: RANDOM.normal(size=(3, 4)) for name in "xy"}
    assert cn.check_gradients(net, batch).worst < 1e-5


def test_what_has_no_term_to_begin_with_stays() -> None:
    x = cn.input("x", 3)
    nothing = cn.minus(-x, cn.parameter("W", (3, 3)) @ x, name="negative")
    assert fused(cn.Network(outputs=[nothing]), nothing) == {"negative": ["value", "product"]}  # -x is a value
    wide = cn.plus(cn.parameter("V", (3, 3)) @ x, cn.input("one", 1), name="wide")
    assert fused(cn.Network(outputs=[wide]), wide) == {}  # rows are repeated


def test_levels_below_the_highest_leave_sums_as_they_are() -> None:
    net, _ = recurrence()
    batch = {"x": cn.sequences([RANDOM.normal(size=(3, 4))])}
    found = net.gradients(batch)
    for options in (CompileOptions(level=2), CompileOptions(optimize=False)):
        net.compile_options = options
        assert "Wx.Propagate" in str(net.program(batch))
        for name, gradient in net.gradients(batch).items():
            np.testing.assert_allclose(gradient, found[name], rtol=1e-10)


def test_natural_gradient_finds_its_products() -> None:
    """They are kernels of their own for as long as their operands are taken down."""
    net, _ = recurrence()
    batch = {"x": cn.sequences([RANDOM.normal(size=(3, 4))])}
    before = net.parameters()
    cn.train(net, [batch], learning_rate=0.1, natural_gradient=True)
    assert all(np.any(net.parameters()[name] != value) for name, value in before.items())
    assert "sum:early" in str(net.program(batch))


def runs_random_loop(seed: int) -> Run:
    criterion, last, inputs = random_loop_graph(random.Random(seed))

    def run(options: CompileOptions, cache: ComputationCache) -> None:
        net = cn.Network(criterion, {"last": last}, dtype=torch.float64, compile_options=options, cache=cache)
        batch = {node.name: inputs[node.name] for node in net.inputs}
        net.criterion_and_gradients(batch, wrt=net.inputs)
        net.evaluate("last", batch)

    return run


def runs_recurrence(options: CompileOptions, cache: ComputationCache) -> None:
    net, _ = recurrence()
    net.compile_options, net.cache = options, cache
    net.criterion_and_gradients({"x": cn.sequences([RANDOM.normal(size=(3, n)) for n in (4, 2)])}, wrt=net.inputs)


def pairs(run: Run) -> list[tuple[Lowered, Lowered]]:
    """Plain programs with every node by itself and with fused sums; none if families ask for others."""
    apart, together = (lowered_programs(CompileOptions(optimize=fuses), run) for fuses in (False, True))
    return list(zip(apart, together, strict=True)) if len(apart) == len(together) else []


def is_fused(lowered: Lowered) -> bool:
    return any(len(terms) > 1 and {kind for kind, _ in terms} != {VALUE} for terms in lowered[1].values())


def test_fused_sums_are_the_same_polynomials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROVE, "0")  # but for what is proved here
    fused_ones = 0
    for seed in range(shifted(0), shifted(0) + draws(12)):
        for apart, together in pairs(runs_random_loop(seed)):
            prove_same_sums(apart, together)
            fused_ones += is_fused(together)
    assert fused_ones > 1


def _with_last_negated(root: Node, terms: list[SumTerm]) -> tuple[SumTerm, ...]:
    *others, last = IN_ORDER(root, terms)
    return (*others, replace(last, factor=-last.factor))


def _without_last(root: Node, terms: list[SumTerm]) -> tuple[SumTerm, ...]:
    return IN_ORDER(root, terms)[: max(1, len(terms) - 1)]


IN_ORDER = fusing._in_order


@pytest.mark.parametrize("wrong", [None, _with_last_negated, _without_last])
def test_a_wrong_sum_is_another_polynomial(wrong: Callable[..., tuple[SumTerm, ...]] | None) -> None:
    with mock.patch.object(fusing, "_in_order", wrong or IN_ORDER):
        ((apart, together),) = pairs(runs_recurrence)
    assert is_fused(together)
    if wrong is None:
        prove_same_sums(apart, together)
        return
    with pytest.raises(ProofError, match="differs"):
        prove_same_sums(apart, together)
