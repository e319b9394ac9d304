"""Plans: plain data that says the same after it was saved, printed and looked up."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import KernelInfo
from nnet3.engine.runtime import NnetComputer, Plan, plan, plan_of
from nnet3.engine.runtime.kernels import Kernels
from nnet3.errors import ExecutionError
from tests.runtime.programs import Program, random_programs
from tests.runtime.scale_program import FEATURES, forward, scale_program
from tests.runtime.toy_kernels import Product, Scale, net


def there_and_back(made: Plan) -> Plan:
    header, arrays = made.to_data()
    return Plan.from_data(json.loads(json.dumps(header)), {name: array.copy() for name, array in arrays.items()})


def check_equal(one: Plan, other: Plan) -> None:
    for name, value in vars(one).items():
        same = getattr(other, name)
        if isinstance(value, np.ndarray):
            assert value.dtype == same.dtype
            np.testing.assert_array_equal(value, same)
        elif name == "indexes":
            assert all(np.array_equal(a, b) for a, b in zip(value, same, strict=True))
        elif name != "precomputed":
            assert value == same, name


@given(random_programs())
def test_random_plans_there_and_back(computation: NnetComputation) -> None:
    made = plan(computation, "float64")
    check_equal(made, there_and_back(made))


def test_everything_there_and_back() -> None:
    computation = scale_program(store_stats=True, memo=0)
    computation.new_outside("W", 3, 4, True)
    computation.precomputed += [{"rows": np.arange(3), "weights": np.ones((2, 2), np.float32)}, {}]
    made = plan(computation)
    read = there_and_back(made)
    check_equal(made, read)
    assert read.precomputed[0] is None
    assert [list(entry or {}) for entry in read.precomputed] == [[], ["rows", "weights"], []]
    np.testing.assert_array_equal((read.precomputed[1] or {})["weights"], np.ones((2, 2)))


def test_a_plan_that_was_saved_runs() -> None:
    computation = scale_program(memo=0)
    computation.attachments = {}
    header, arrays = plan(computation).to_data()
    computation.attachments["plan float32"] = json.loads(json.dumps(header)), arrays
    computation.commands.clear()  # nobody looks at them any more
    gradient = net(scale=Scale(0.0))
    computer = NnetComputer(computation, net(scale=Scale(2.0)), gradient)
    np.testing.assert_array_equal(forward(computer), 2 * FEATURES)
    computer.accept_input("output", torch.ones(2, 3))
    computer.run()
    assert gradient.components["scale"].factor == FEATURES.sum()


def test_plans_of_another_version() -> None:
    header, arrays = plan(scale_program()).to_data()
    with pytest.raises(ExecutionError, match="a plan of version 99 cannot be used, only "):
        Plan.from_data({**header, "version": 99}, arrays)


def test_a_kept_plan_of_another_version_is_made_anew() -> None:
    computation = scale_program(memo=0)
    header, arrays = plan(computation).to_data()
    computation.attachments = {"plan float32": ({**header, "version": 0}, {})}
    check_equal(plan_of(computation, "float32"), plan(computation))
    assert computation.attachments["plan float32"][0] == header
    assert list(computation.attachments["plan float32"][1]) == list(arrays)


def test_the_printed_form() -> None:
    lines = str(plan(scale_program())).splitlines()
    assert lines[0] == "# plan in float32: 256 bytes, 10 calls, 5 views"
    assert lines[2] == "c1: accept [0, 0]"
    assert lines[-1].startswith("c10: provide")


def test_kernels_and_what_is_done_with_them() -> None:
    made = plan(scale_program(store_stats=True))
    (kernel,) = made.kernels
    assert (kernel.name, kernel.input_width, kernel.output_width) == ("scale", 3, 3)
    assert kernel.is_updated
    assert kernel.stores_stats
    program = Program()
    two = program.kernel(KernelInfo("product"))
    program.kernel(KernelInfo("unused"))
    a, b = program.matrix(2, 2, zeroed=True), program.matrix(2, 2)
    program.add(cmd.Propagate(two, "product", (a, a), b))
    product, unused = plan(program.computation).kernels
    assert (product.input_width, product.output_width, unused.output_width) == (-1, 2, -1)
    Kernels({"product": Product()}).check(plan(program.computation))
