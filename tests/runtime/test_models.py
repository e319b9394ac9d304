"""What is asked of whole networks: their types of numbers, and whether they are the ones compiled for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from nnet3.engine.runtime.models import check_fingerprint, check_one_dtype, check_tensors, common_dtype, model_dtype
from nnet3.errors import ExecutionError
from tests.runtime.toy_kernels import Scale, net

F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16
MIXED = net(a=SimpleNamespace(), b=Scale(1.0, F64), c=Scale(1.0, F32))


def test_the_first_parameter_decides() -> None:
    assert model_dtype(MIXED, None) == F64
    assert model_dtype(MIXED, F32) == F32
    assert model_dtype(net(), None) is None
    assert model_dtype(net(), BF16) == BF16
    whole = SimpleNamespace(parameters=lambda: {"table": torch.zeros(2, dtype=torch.int64)})
    assert model_dtype(net(whole=whole, b=Scale(1.0, BF16)), None) == BF16
    with pytest.raises(ExecutionError, match=r"the network are torch.float64, torch.float32: convert it with nnet\.to"):
        model_dtype(MIXED, BF16)


def test_a_type_that_is_there_no_more() -> None:
    for dtype in (F32, F64):
        check_tensors(MIXED, dtype)
    check_tensors(net(a=SimpleNamespace()), BF16)
    with pytest.raises(
        ExecutionError, match=r"in torch.bfloat16, whose parameters are torch.float32, torch.float64 now"
    ):
        check_tensors(MIXED, BF16)


def test_the_component_of_another_type_is_named() -> None:
    check_one_dtype(net(a=SimpleNamespace(), c=Scale()), F32)
    with pytest.raises(ExecutionError, match=r"runs in torch.float32, but 'factor' of component 'b' is torch.float64"):
        check_one_dtype(MIXED, F32)


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ([], F32),
        ([BF16], BF16),
        ([BF16, torch.float16], F32),
        ([torch.int64], F32),
        ([torch.int8, BF16], F32),
        ([F32, F64, BF16], F64),
    ],
)
def test_the_type_that_holds_all(dtypes: list[torch.dtype], expected: torch.dtype) -> None:
    assert common_dtype([torch.zeros(1, dtype=dtype) for dtype in dtypes]) == expected


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"a1": "x"}, "in: a1; compile again"),
        ({"new": "x"}, "in: new; compile again"),
        ({f"a{k}": "x" for k in range(5)}, "in: a0, a1, a2, a3, a4; compile again"),
        ({f"a{k}": "x" for k in range(7)}, "in: a0, a1, a2, a3, a4, 2 more; compile again"),
    ],
)
def test_another_network_is_named_by_what_is_different(changed: dict[str, str], shown: str) -> None:
    compiled = {f"a{k}": str(k) for k in range(9)}

    def of(prints: dict[str, str]) -> Any:
        return SimpleNamespace(fingerprint=lambda: prints)

    check_fingerprint(compiled, of(dict(compiled)))
    check_fingerprint({}, of(changed))
    check_fingerprint(compiled, SimpleNamespace())
    with pytest.raises(ExecutionError, match=shown):
        check_fingerprint(compiled, of({**compiled, **changed}))
    with pytest.raises(ExecutionError, match=shown):
        check_fingerprint({**compiled, **changed}, of(compiled))
