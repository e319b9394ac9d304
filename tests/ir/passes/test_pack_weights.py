"""Steps that multiply by some columns of weights read them from a matrix of their own."""

from __future__ import annotations

from nnet3.ir.checker import check_computation
from nnet3.ir.passes.hoist_products import hoist_products
from nnet3.ir.passes.pack_weights import pack_weights
from tests.ir.passes.wide_recurrence import recurrence
from tests.ir.programs import lines, recurrence as sigmoids, run


def test_steps_take_packed_weights() -> None:
    hoisted = hoist_products(recurrence([0, 1, 2, 3], [1, 2, 3, 4]))
    result = pack_weights(hoisted)
    check_computation(result)
    run(result).check_equals(run(hoisted))
    assert pack_weights(result) is result
    kept = [line for line in lines(result) if "m5" in line and line not in lines(hoisted)]
    assert kept == [
        "m5 = undefined(3, 3)",
        "wide[3:6]+.Propagate((), &m5) [node wide]",
        *(f"wide[3:6]+.Propagate((m2(:, 3:5), m4({row}, :), m5), &m3({row}, :)) [node wide]" for row in range(4)),
        "m5 = []",
    ]


def test_each_kernel_packs_before_its_first_step() -> None:
    """A step before which others know more keeps the whole kernel."""
    result = pack_weights(hoist_products(recurrence([0, 1, 2, 3], [0, 1, 2, 3], late=True)))
    found = [line.split(".")[0] for line in lines(result) if "Propagate" in line]
    assert found == ["wide[0:3]", "wide[3:6]+", *["wide[3:6]+"] * 3, "wide"]


def test_one_step_alone_and_whole_kernels_stay() -> None:
    alone = hoist_products(recurrence([0, 1, 2, 3], [1, 2, 3, 4]))
    first = next(n for n, c in enumerate(alone.commands) if "+." in lines(alone)[n])
    steps = [n for n, line in enumerate(lines(alone)) if "+.Propagate" in line]
    assert first == steps[0]
    alone.commands = [c for n, c in enumerate(alone.commands) if n not in steps[1:]]
    assert pack_weights(alone) is alone
    whole = sigmoids(3)
    assert pack_weights(whole) is whole
