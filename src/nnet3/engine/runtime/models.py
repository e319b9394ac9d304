"""Checks of a whole network: its dtype, and whether the computation was compiled for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from nnet3.engine.ir.matrices import warn_of_gradient
from nnet3.engine.runtime.dtypes import DTYPES, dtype_name
from nnet3.errors import ExecutionError

_MAX_SHOWN = 5  # aspects in a message


def model_dtype(nnet: Any, wanted: torch.dtype | None) -> torch.dtype | None:
    """Returns the dtype of a network's first parameter, without parameters the dtype last given to its `to`;
    None if there is neither and none is wanted.

    Raises ExecutionError for a wanted type that the network does not have.
    """
    dtypes = (tensor.dtype for tensor in _tensors(nnet) if tensor.is_floating_point())
    if wanted is None:
        return next(dtypes, getattr(nnet, "given_dtype", None))
    found = dict.fromkeys(dtypes)
    dtype_name(wanted)
    if found and wanted not in found:
        types = ", ".join(str(dtype) for dtype in found)
        raise ExecutionError(
            f"dtype={wanted} was asked for, but the parameters of the network are {types}: convert it with "
            f"nnet.to(dtype={wanted})"
        )
    return wanted


def _tensors(nnet: Any) -> Iterator[Tensor]:
    """Yields the tensors of all kernels, of each the trained ones first."""
    for component in nnet.components.values():
        yield from getattr(component, "parameters", dict)().values()
        yield from (getattr(component, name) for name in getattr(component, "constant_names", ()))


def check_tensors(nnet: Any, dtype: torch.dtype) -> None:
    """Raise ExecutionError if no parameter of a network has this type any more; warn of any that requires grad."""
    found = set()
    for name, component in nnet.components.items():
        for key, tensor in getattr(component, "parameters", dict)().items():
            found.add(tensor.dtype)
            if tensor.requires_grad:
                warn_of_gradient(tensor, f"'{key}' of component '{name}'")
    if found and dtype not in found:
        types = ", ".join(sorted(str(each) for each in found))
        raise ExecutionError(
            f"this computer was made for a network in {dtype}, whose parameters are {types} now: make another computer"
        )


def check_one_dtype(nnet: Any, dtype: torch.dtype) -> None:
    """Raise ExecutionError if a component has parameters of another type: asked when a run has failed."""
    for name, component in nnet.components.items():
        for key, tensor in getattr(component, "parameters", dict)().items():
            if tensor.dtype != dtype:
                raise ExecutionError(
                    f"the computation runs in {dtype}, but '{key}' of component '{name}' is {tensor.dtype}: convert "
                    "the network with nnet.to(dtype=...)"
                )


def common_dtype(tensors: Iterable[Tensor]) -> torch.dtype:
    """Returns the dtype to which all given dtypes are promoted; integers count as float32."""
    result: torch.dtype | None = None
    for tensor in tensors:
        dtype = tensor.dtype if tensor.dtype in DTYPES.values() else torch.float32
        result = dtype if result is None else torch.promote_types(result, dtype)
    return result or torch.float32


def check_fingerprint(compiled: Mapping[str, str], nnet: Any) -> None:
    """Raise ExecutionError, which names the aspects, if the computation was compiled for another network.

    Fingerprints are digests by aspect ("structure", "component tdnn1.affine", ...); computations and networks may be
    without.
    """
    if not compiled or not hasattr(nnet, "fingerprint"):
        return
    now = nnet.fingerprint()
    if now == compiled:
        return
    changed = [aspect for aspect in {**compiled, **now} if compiled.get(aspect) != now.get(aspect)]
    if changed:
        more = [f"{len(changed) - _MAX_SHOWN} more"] if len(changed) > _MAX_SHOWN else []
        raise ExecutionError(
            "the network is not what the computation was compiled for, or has changed since, in: "
            f"{', '.join([*changed[:_MAX_SHOWN], *more])}; compile again"
        )
