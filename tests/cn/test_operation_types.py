"""Operations of one's own: made, registered, saved and loaded; classes that cannot be registered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3 import cn
from nnet3.cn.operation import put_product
from nnet3.cn.operation_types import OPERATIONS
from nnet3.engine.driver import ComputationCache
from nnet3.errors import ModelFormatError, NetworkError, Nnet3Error
from tests.cn.check_node import check_node, random
from tests.seeds import RANDOM


def power_class(needs: frozenset[int] = frozenset({0})) -> type[cn.Operation]:
    """The same class anew, as when a cell of a notebook runs again."""

    @dataclass(frozen=True)
    class Power(cn.Operation):
        type: ClassVar[str] = "to_the_power"
        gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (needs,)
        exponent: float
        sizes: tuple[int, ...] = ()
        note: str = ""
        limit: int | None = None

        def check(self) -> None:
            if self.exponent <= 0:
                raise NetworkError(f"to_the_power: expected an exponent greater than 0, got {self.exponent}")

        def infer(self, operands):
            return operands[0]

        def evaluate(self, inputs, output: Tensor) -> None:
            torch.pow(inputs[0], self.exponent, out=output)

        def compute_partial_gradient(
            self, child: int, inputs, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
        ) -> None:
            x = inputs[0] if inputs[0].numel() else output ** (1 / self.exponent)
            put_product(dx, gradient, self.exponent * x ** (self.exponent - 1), accumulate)

    return Power


@pytest.fixture
def power() -> Iterator[type[cn.Operation]]:
    made = cn.register(power_class())
    yield made
    del OPERATIONS["to_the_power"]


def network(operation: cn.Operation) -> cn.Network:
    h = cn.Node(operation, (cn.exp(cn.parameter("W", (2, 3)) @ cn.input("x", 3)),), name="h")
    return cn.Network(cn.sum_elements(h), {"h": h}, dtype=torch.float64)


def test_values_and_gradients(power) -> None:
    check_node(cn.Node(power(2.5), (cn.input("x", 4),)), [random(4, 5, positive=True)], lambda x: x**2.5)
    assert cn.check_gradients(network(power(2.5)), {"x": RANDOM.normal(size=(3, 4))}).worst < 1e-6


def test_registered_operations_are_saved_and_loaded(power, tmp_path) -> None:
    net = network(power(2, (3, 4), "a, 'b' and \"c\"\n(d"))
    X = {"x": RANDOM.normal(size=(3, 4))}
    cn.save(net, tmp_path / "net.cn")
    again = cn.load(tmp_path / "net.cn")
    assert again.find("h").operation == net.find("h").operation
    np.testing.assert_array_equal(again.evaluate("h", X), net.evaluate("h", X))
    assert cn.to_text(again) == cn.to_text(net) == cn.to_text(net.copy())
    del OPERATIONS["to_the_power"]
    with pytest.raises(ModelFormatError, match=r"there is no node type 'to_the_power'; operations of your own"):
        cn.load(tmp_path / "net.cn")
    OPERATIONS["to_the_power"] = power


@pytest.mark.parametrize(
    "options", ["exponent=-1.0", "exponent='a'", "exponent=2.0, sizes=(1.5,)", "exponent=2.0, limit=0.5", "note='a'"]
)
def test_options_are_checked_in_files_too(power, options) -> None:
    lines = ["# computational network 1", "x = input(rows=3)", f"y = to_the_power(x, {options})", "output y = y"]
    with pytest.raises(ModelFormatError, match="line 3: to_the_power: "):
        cn.from_text("\n".join(lines))
    with pytest.raises(Nnet3Error, match="to_the_power: "):
        power.from_options(**eval(f"dict({options})"))


def test_what_is_not_registered_is_not_written(tmp_path) -> None:
    net = network(power_class()(2.0))
    X = {"x": RANDOM.normal(size=(3, 4))}
    np.testing.assert_allclose(net.copy().evaluate("h", X), net.evaluate("h", X))
    for write in (cn.to_text, lambda net: cn.save(net, tmp_path / "net.cn")):
        with pytest.raises(NetworkError, match=r"'to_the_power' cannot be read again: decorate its class Power"):
            write(net)
    assert not list(tmp_path.iterdir())
    net = cn.Network(cn.squared_norm(network(power_class()(2.0)).outputs["h"]))
    with pytest.warns(UserWarning, match=r"will not be written to final.cn: 'to_the_power' cannot be read again"):
        cn.train(net, [X], folder=tmp_path, curves=False, tensorboard=False)
    assert not (tmp_path / "final.cn").exists()

    @dataclass(frozen=True)
    class Leaky(cn.nodes.activations.Relu):  # its type is that of another
        slope: float = 0.1

    with pytest.raises(NetworkError, match="'relu' cannot be read again"):
        cn.to_text(network(Leaky()))


def test_a_class_made_anew_takes_the_place_of_the_old_one(power) -> None:
    again = cn.register(power_class())
    assert OPERATIONS["to_the_power"] is again
    assert cn.to_text(network(power(2.0))) == cn.to_text(network(again(2.0)))  # nodes of before are no strangers


def test_programs_know_what_operations_promise() -> None:
    """Of two operations of one name each has a program that keeps the values its gradient needs."""
    cache, X = ComputationCache(), {"x": RANDOM.normal(size=(3, 4))}
    for needs in (frozenset({cn.operation.OWN_VALUE}), frozenset({0})):
        net = network(power_class(needs)(2.0))
        net.cache = cache
        assert cn.check_gradients(net, X).worst < 1e-6


def _plain() -> type:
    class Plain(cn.Operation):
        type = "plain"

        def __init__(self, factor: float):
            self.factor = factor

    return Plain


def _with(**annotations: Any) -> type:
    namespace = {"type": "mine", "__annotations__": annotations}
    return dataclass(frozen=True)(type("Mine", (cn.Operation,), namespace))


def _named(name: Any) -> type:
    return dataclass(frozen=True)(type("Mine", (cn.Operation,), {"type": name}))


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (3, "must be a class derived from cn.Operation, got 3"),
        (int, "int: expected a class derived from cn.Operation"),
        (_plain(), r"Plain: expected a class .* with @dataclass\(frozen=True\)"),
        (_named("my own"), "as its type, got 'my own'"),
        (_named(3), "as its type, got 3"),
        (_named("tanh"), "its type 'tanh' is that of Tanh: give it another"),
        (_with(matrix=np.ndarray), "field matrix is .*ndarray.*, and cannot be written"),
        (_with(names="tuple[str, ...]"), "field names is tuple"),
        (_with(factor="complex"), "field factor is complex"),
    ],
)
def test_classes_that_cannot_be_registered(made, says) -> None:
    known = dict(OPERATIONS)
    with pytest.raises(Nnet3Error, match=says):
        cn.register(made)
    assert known == OPERATIONS


@pytest.mark.parametrize(
    "annotations", [{"a": int}, {"a": "int | None"}, {"a": tuple[int, int]}, {"a": bool, "b": str}, {}]
)
def test_annotations_as_types_and_as_texts(annotations) -> None:
    made = cn.register(_with(**annotations))
    try:
        values = {"int": 3, "int | None": 7, "tuple[int, int]": (1, 2), "bool": True, "str": "t"}
        options = {name: values[kind] for name, kind in made.option_kinds().items()}
        assert made.from_options(**options).options() == options
    finally:
        del OPERATIONS["mine"]
