"""Names of kernels of some columns."""

from __future__ import annotations

import pytest

from nnet3.engine.ir.kernel import named_slice, slice_name, whole_kernel


@pytest.mark.parametrize(("adds", "goes_backward"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("kernel", ["w", "lstm1.W_all", "a[0:2]", "new\nline"])
def test_a_part_is_found_by_its_name(kernel: str, adds: bool, goes_backward: bool) -> None:
    name = slice_name(kernel, 3, 12, adds=adds, goes_backward=goes_backward)
    assert named_slice(name) == (kernel, 3, 12, adds, goes_backward)


def test_other_names_are_no_parts() -> None:
    assert [named_slice(name) for name in ("w", "w[1]", "w[1:2]x", "w[a:b]")] == [None] * 4


def test_the_whole_kernel_of_a_part() -> None:
    assert whole_kernel("w[0:3]+", {"w"}) == "w"
    assert whole_kernel("w[0:3]", {"w", "w[0:3]"}) == "w[0:3]"
    assert whole_kernel("other", {"w"}) == "other"
