"""What operations declare to proofs, against numbers in float64; `test_promises` has what they declare to passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from nnet3 import cn
from nnet3.cn.fusing import ELEMENTS, PRODUCT, VALUE, SumOfProducts
from nnet3.cn.nodes.columns import RowStack
from nnet3.cn.nodes.sequence import AdditiveAttention, Attention
from nnet3.cn.operation import Operation
from nnet3.cn.samples import SampleLayout
from nnet3.cn.sequence_operation import SampleRows
from nnet3.cn.sequence_operation_in_loop import SequenceOperationInLoop
from nnet3.cn.shape import Shape
from nnet3.engine.ir.kernel import KernelInfo
from nnet3.errors import GradientError
from tests.cn.check_node import state
from tests.cn.nodes.samples import IMAGE, NODES, K, V, W, b, x

_ROWS = 6
_POSITIVE = {"log", "sqrt", "cross_entropy"}
#: Windows of one pixel, a rate of 0, values that do not stand first in a sum: declared to be less than they are.
NOT_DECLARED = {"max_pooling", "average_pooling", "dropout", "sum_of_products"}


@dataclass(frozen=True)
class Case:
    """An operation whose operands and value have these shapes. What has samples has `_ROWS` of them."""

    operation: Operation
    shapes: tuple[Shape, ...]
    value: Shape

    @property
    def places(self) -> list[int]:
        """The operands that have a gradient."""
        return [place for place in range(len(self.shapes)) if self._has_gradient(place)]

    def _has_gradient(self, place: int) -> bool:
        try:
            self.operation.check_gradient(place)
        except GradientError:
            return False
        return not (isinstance(self.operation, SequenceOperationInLoop) and place)

    def info(self, wanted: Sequence[int] | None = None) -> KernelInfo:
        wanted = self.places if wanted is None else wanted
        flags = [place in wanted for place in range(len(self.shapes))]
        return self.operation.info("it", self.shapes, self.value, flags)

    def operands(self, seed: int = 0) -> list[Tensor]:
        made = [numbers(shape, 10 * seed + place) for place, shape in enumerate(self.shapes)]
        made = [each.abs() + 0.1 for each in made] if self.operation.type in _POSITIVE else made
        if self.operation.type == "where":
            made[0] = made[0].round()  # there are zeros among them
        for place, classes in self.operation.num_classes(self.shapes).items():
            made[place] = (made[place].abs() * 10).long().remainder(classes).to(torch.float64)
        if isinstance(self.operation, SequenceOperationInLoop):
            made[1] = torch.tensor([0, 1, 0, 2, 1, 0], dtype=torch.float64)[:, None]
        return made

    def run(
        self,
        operands: Sequence[Tensor],
        dy: Tensor,
        wanted: Sequence[int] | None = None,
        *,
        seen: Sequence[Tensor] | None = None,
        own: Tensor | None = None,
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """The value and derivatives; the backward pass sees `seen` and `own` in the places of operands and value."""
        wanted = self.places if wanted is None else wanted
        kernel, value = self.operation.kernel(state()), torch.empty_like(dy)
        memo = kernel.run_forward(operands, value, None)
        derivs = [torch.full_like(x, torch.nan) if place in wanted else None for place, x in enumerate(operands)]
        memo = memo if self.info(wanted).uses_memo else None
        values = operands if seen is None else seen, value if own is None else own
        if wanted:
            kernel.run_backward(*values, dy, memo, None, derivs, [False] * len(operands), None)
        return value, {place: deriv for place, deriv in enumerate(derivs) if deriv is not None}


def numbers(shape: Shape, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape.num_cols or _ROWS, shape.rows, generator=generator, dtype=torch.float64)


def stepped(whole: Any, *weights: SampleRows, wanted: bool = True) -> SequenceOperationInLoop:
    made = SequenceOperationInLoop(whole, [wanted] * (2 + len(weights)))
    layout = SampleLayout((3, 2, 4))
    contexts = [SampleRows(torch.randn(9, 4, generator=_seeded(k), dtype=torch.float64), layout) for k in (1, 2)]
    made.begin([*contexts, *weights])
    return made


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _cases() -> dict[str, Case]:
    one, c = cn.input("one", 1), cn.parameter("c", (1, 1))
    more = [
        *[make(x) for make in (cn.mean_rows, cn.min_rows, cn.log_sum_exp_rows)],
        *[make(V) for make in (cn.copy, cn.sum_rows, cn.tanh, cn.layer_norm, cn.sum_elements)],
        *[cn.plus(V, V), cn.minus(b, x), cn.element_times(x, b), cn.element_times(one, x), cn.divide(x, b)],
        *[
            cn.dropout(0.0, x),
            cn.power(x, 0.0),
            cn.where(x, c, c),
            cn.square_error(V, V),
            cn.classification_error(one, x),
        ],
        cn.cross_entropy_with_softmax(one, x, weights=b, smoothing=0.25),
        cn.convolution(K, x, **IMAGE),
        cn.max_pooling(x, image=(2, 2, 1), window=2),
        cn.torch_function(lambda x, w: w @ torch.tanh(x), x, W, shape=3),
        cn.torch_function(lambda x: x.square().sum()[None, None], x, shape=(1, 1)),
    ]
    cases = [Case(n.operation, tuple(o.shape for o in n.operands), n.shape) for n in (*[n for n, *_ in NODES], *more)]
    column, samples, square = Shape(4, 1), Shape(4), Shape(4, 4)
    for terms, shapes in (
        ([(VALUE, 1.0), (PRODUCT, -1.0)], [samples, square, samples]),
        ([(VALUE, 1.0), (ELEMENTS, 2.0), (VALUE, -1.0)], [samples, samples, column, column]),
        ([(VALUE, 1.0), (VALUE, 1.0), (VALUE, -1.0)], [column, samples, samples]),
        ([(PRODUCT, 1.0), (PRODUCT, 1.0), (VALUE, 1.0)], [square, samples, square, samples, samples]),
        ([(ELEMENTS, 1.0), (VALUE, -1.0)], [column, samples, samples]),
    ):
        cases.append(Case(SumOfProducts(terms), tuple(shapes), samples))
    weights = SampleRows(torch.ones(1, 4, dtype=torch.float64), None)
    for operation in (stepped(Attention()), stepped(AdditiveAttention(), weights)):
        cases.append(Case(operation, (samples, Shape(1)), samples))
    cases.append(Case(RowStack((4, 3)), (column, Shape(3, 1)), Shape(7, 1)))
    return {f"{number}-{case.operation.type}": case for number, case in enumerate(cases)}


CASES = _cases()
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def permuted(case: Case, matrices: Sequence[Tensor], order: Tensor) -> list[Tensor]:
    return [m[order] if s.has_samples else m for m, s in zip(matrices, case.shapes, strict=True)]


def changed_rows(one: Tensor, other: Tensor) -> set[int]:
    return set(torch.nonzero((one - other).abs().amax(1) > 1e-12).flatten().tolist())


@every_case
def test_derivatives_are_passed_where_it_is_declared_and_nowhere_else(case: Case) -> None:
    dy = numbers(case.value, 99)
    _, derivs = case.run(case.operands(), dy)
    for place, promises in enumerate(case.info().inputs):
        assert not promises.passes_deriv or case.shapes[place] == case.value
        if place in derivs:
            is_passed = torch.equal(derivs[place], dy)
            assert promises.passes_deriv == is_passed or (is_passed and case.operation.type in NOT_DECLARED)


@every_case
def test_operations_are_affine_where_it_is_declared(case: Case) -> None:
    dy, one, other = numbers(case.value, 99), case.operands(1), case.operands(2)
    for place, promises in enumerate(case.info().inputs):
        if promises.is_linear:
            ends = [0.3 * one[place] - 1.7 * other[place], one[place], other[place], torch.zeros_like(one[place])]
            mixed, *parts = (case.run([*one[:place], end, *one[place + 1 :]], dy)[0] for end in ends)
            torch.testing.assert_close(mixed, 0.3 * parts[0] - 1.7 * parts[1] + 2.4 * parts[2])


@every_case
def test_rows_depend_on_their_own_row_alone_if_it_is_declared(case: Case) -> None:
    info, operands, dy = case.info(), case.operands(), numbers(case.value, 99)
    value, derivs = case.run(operands, dy)
    assert info.row_by_row == case.value.has_samples
    assert (info.rows_apart, info.backprop_rows_apart) == (info.row_by_row, info.row_by_row)
    if not info.row_by_row:
        return
    other, other_dy = case.operands(1), dy.clone()
    other_dy[2] = numbers(case.value, 98)[2]
    mixed = [m.clone() for m in operands]
    for m, o, shape in zip(mixed, other, case.shapes, strict=True):
        if shape.has_samples:
            m[2] = o[2]
    value_of_other, derivs_of_other = case.run(mixed, other_dy)
    assert changed_rows(value, value_of_other) <= {2}
    for place, deriv in derivs.items():
        if case.shapes[place].has_samples:
            assert changed_rows(deriv, derivs_of_other[place]) <= {2}


@every_case
def test_rows_may_stand_in_any_order(case: Case) -> None:
    """Rows of samples have no numbers: the value of a sum over them stays, all others follow."""
    operands, dy, order = case.operands(), numbers(case.value, 99), torch.tensor([3, 0, 5, 1, 4, 2])
    if case.info().is_random:
        return  # the mask stands in the order of the calls
    value, derivs = case.run(operands, dy)
    moved = order if case.value.has_samples else torch.arange(len(dy))
    turned, derivs_of_turned = case.run(permuted(case, operands, order), dy[moved])
    torch.testing.assert_close(turned, value[moved])
    for place, deriv in derivs.items():
        expected = deriv[order] if case.shapes[place].has_samples else deriv
        torch.testing.assert_close(derivs_of_turned[place], expected)


@every_case
def test_derivatives_without_samples_are_sums_over_rows(case: Case) -> None:
    operands, dy = case.operands(), numbers(case.value, 99)
    if case.info().is_random or not case.info().row_by_row:
        return
    _, derivs = case.run(operands, dy)
    halves = [case.run(permuted(case, operands, half), dy[half])[1] for half in torch.arange(_ROWS).chunk(2)]
    for place, deriv in derivs.items():
        if not case.shapes[place].has_samples:
            torch.testing.assert_close(deriv, halves[0][place] + halves[1][place])


@every_case
def test_derivatives_are_linear_if_it_is_declared(case: Case) -> None:
    operands, one, other = case.operands(), numbers(case.value, 98), numbers(case.value, 99)
    assert case.info().backprop_is_linear
    _, mixed = case.run(operands, 30.0 * one - 17.0 * other)
    parts = [case.run(operands, each)[1] for each in (one, other, torch.zeros_like(one))]
    for place, deriv in mixed.items():
        torch.testing.assert_close(deriv, 30.0 * parts[0][place] - 17.0 * parts[1][place])
        assert not parts[2][place].any()


@every_case
def test_backward_passes_read_no_more_values_than_declared(case: Case) -> None:
    operands, dy = case.operands(), numbers(case.value, 99)
    for wanted in ([place] for place in case.places):
        info = case.info(wanted)
        value, expected = case.run(operands, dy, wanted)
        needs = [promises.backprop_needs_value for promises in info.inputs]
        seen = [m if need else torch.full_like(m, torch.nan) for m, need in zip(operands, needs, strict=True)]
        own = None if info.backprop_needs_output else torch.full_like(value, torch.nan)
        if info.backprop_needs_sign_only:
            own = torch.where(value > 0, numbers(case.value, 97).abs() + 0.1, -numbers(case.value, 96).abs())
        _, found = case.run(operands, dy, wanted, seen=seen, own=own)
        assert torch.equal(found[wanted[0]], expected[wanted[0]])


@pytest.mark.parametrize(
    "case", [c for c in CASES.values() if c.info().uses_memo], ids=lambda case: case.operation.type
)
def test_memos_keep_values_or_draws(case: Case) -> None:
    """A memo of other values, or of another draw, makes other derivatives of the same values."""
    kernel, operands, dy = case.operation.in_mode(True).kernel(state(True)), case.operands(), numbers(case.value, 99)
    info = case.operation.in_mode(True).info("it", case.shapes, case.value, [True] * len(case.shapes))
    values = [torch.empty_like(dy) for _ in range(3)]
    memos = [
        kernel.run_forward(given, value, None)
        for given, value in zip((operands, operands, case.operands(1)), values, strict=True)
    ]
    found = []
    for memo in memos:
        derivs = [torch.full_like(x, torch.nan) if place in case.places else None for place, x in enumerate(operands)]
        kernel.run_backward(operands, values[0], dy, memo, None, derivs, [False] * len(operands), None)
        found.append(torch.cat([deriv.flatten() for deriv in derivs if deriv is not None]))
    assert torch.equal(found[0], found[1]) or info.is_random
    assert not torch.equal(found[0], found[2]) or case.operation.type in NOT_DECLARED


@pytest.mark.parametrize("training", [False, True])
@every_case
def test_random_operations_give_other_numbers_each_time_and_no_others_do(case: Case, training: bool) -> None:
    operation, operands = case.operation.in_mode(training), case.operands()
    info = operation.info("it", case.shapes, case.value, [False] * len(case.shapes))
    kernel, values = operation.kernel(state(training)), [torch.empty_like(numbers(case.value, 0)) for _ in range(2)]
    for value in values:
        kernel.run_forward(operands, value, None)
    assert info.is_random == (not torch.equal(*values))
    assert info.is_random == (
        training and case.operation.type == "dropout" and operation != cn.dropout(0.0, x).operation
    )


@pytest.mark.parametrize("learning", [False, True])
@pytest.mark.parametrize("wanted", [False, True])
def test_attention_learns_in_a_loop_if_its_contexts_have_gradients(wanted: bool, learning: bool) -> None:
    operation = stepped(Attention(), wanted=wanted)
    case = Case(operation, (Shape(4), Shape(1)), Shape(4))
    operands, dy = case.operands(), numbers(case.value, 99)
    update = operation if learning else None
    derivs = [torch.empty_like(operands[0]), None]
    operation.run_backward(operands, dy, dy, None, update, derivs, [False] * 2, None)
    assert case.info().learns == wanted
    assert any(gradient.any() for gradient in operation.gradients()) == (wanted and learning)


def test_all_other_operations_learn_nothing() -> None:
    for case in CASES.values():
        assert case.info().learns == isinstance(case.operation, SequenceOperationInLoop)
        assert isinstance(case.operation, SequenceOperationInLoop) or case.operation.gradient_kernel() is case.operation


def test_all_types_of_nodes_with_a_kernel_are_here() -> None:
    assert {case.operation.type for case in CASES.values()} >= {node.type for node, *_ in NODES}
    assert {"sum_of_products", "stepped", "torch_function"} <= {case.operation.type for case in CASES.values()}
