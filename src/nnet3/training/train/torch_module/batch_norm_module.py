"""Batch-norm modules in the form in which PyTorch's own tools look for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from nnet3.errors import NetworkError
from nnet3.model.components.row_sums import RowReduction
from nnet3.training.train.torch_module.component_module import ComponentModule


class BatchNormModule(ComponentModule, _BatchNorm):
    """A component with running statistics. `torch.optim.swa_utils.update_bn` collects them anew."""

    track_running_stats = False  # in PyTorch's sense: no running_mean and running_var
    affine = False
    weight = None  # type: ignore[assignment]
    bias = None  # type: ignore[assignment]
    #: The processes over whose rows it normalises together; None: by the rows that are here.
    reduction: RowReduction | None = None

    @property
    def momentum(self) -> float | None:
        """The share of the running statistics lost at each forward in training; None: no loss."""
        return 1.0 - self.statistics_scale

    @momentum.setter
    def momentum(self, momentum: float | None) -> None:
        self.statistics_scale = 1.0 if momentum is None else 1.0 - momentum

    def reset_running_stats(self) -> None:
        with self.statistics() as component:
            component.scale_stats_(0.0)

    def __getattr__(self, name: str) -> Any:
        if name == "num_features":  # what the conversion asks for first
            raise _NotConvertibleError(
                f"component '{self.component_name}' cannot become a torch.nn.SyncBatchNorm, which the network does not "
                "have: call synchronize_batch_norm() of the TorchModule, and its batch-norm normalises by the rows of "
                "all processes"
            )
        return super().__getattr__(name)


class _NotConvertibleError(NetworkError, AttributeError):
    """Tells `hasattr` that the attribute is missing, and everybody else why."""


class GroupOfProcesses:
    """The processes of a group of torch.distributed, as a RowReduction."""

    def __init__(self, group: Any = None) -> None:
        self._group = group

    @property
    def rank(self) -> int:
        return dist.get_rank(self._group)

    @property
    def size(self) -> int:
        return dist.get_world_size(self._group)

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            dist.all_reduce(tensor, group=self._group)

    def __deepcopy__(self, memo: dict[int, object]) -> GroupOfProcesses:
        return self
