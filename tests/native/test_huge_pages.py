"""Memory in huge pages: what the system says of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

from nnet3.base.native import huge_pages
from nnet3.base.native.huge_pages import in_huge_pages, zeros_for_long


def flags_at(address: int) -> list[str]:
    """Returns the flags of the memory at an address."""
    ranges = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)
    for text in filter(None, ranges):
        first, end = (int(number, 16) for number in text.split(None, 1)[0].split("-"))
        if first <= address < end:
            return text.split("VmFlags:")[1].split()
    raise AssertionError("nothing lies there")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux gives huge pages to who asks")
@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the system has no huge pages")
def test_large_tensors_lie_in_huge_pages() -> None:
    memory = torch.empty(2**26, dtype=torch.uint8)
    assert in_huge_pages(memory) is memory
    assert "hg" in flags_at(memory.data_ptr() + 2**25)


@pytest.mark.parametrize("memory", [torch.empty(0), torch.empty(100), torch.empty(2**24, device="meta")])
def test_other_tensors_are_left_alone(memory: torch.Tensor) -> None:
    assert in_huge_pages(memory) is memory


def test_matrices_for_long_lie_one_behind_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_free", torch.empty(0))
    monkeypatch.setattr(huge_pages, "_AT_ONCE", 100)
    shapes = [(3, 5), (), (0, 7), (2, 2, 4), (1, 70), (1000,), (1,)]
    with torch.inference_mode():
        zeros_for_long(4)
    made = [zeros_for_long(*shape).fill_(number) for number, shape in enumerate(shapes)]
    for number, (matrix, shape) in enumerate(zip(made, shapes, strict=True)):
        assert matrix.shape == shape
        assert matrix.dtype == torch.float32
        assert (matrix == number).all()
    assert not zeros_for_long(40).any()


def test_matrices_for_long_need_no_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_advise", lambda: None)
    assert torch.equal(zeros_for_long(2, 3), torch.zeros(2, 3))
