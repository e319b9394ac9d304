"""Kernels by name, in the network, in the updated network, in the network that takes statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import Any

from nnet3.base.text import did_you_mean
from nnet3.engine.ir.kernel import Kernel, named_slice, whole_kernel
from nnet3.engine.runtime.plan import Plan, PlannedKernel
from nnet3.errors import ExecutionError


@dataclass(frozen=True)
class Kernels:
    """Looks kernels up and remembers them, to notice when a network has replaced some."""

    network: Mapping[str, Kernel]
    to_update: Mapping[str, Kernel] | None = None
    to_store_stats: Mapping[str, Kernel] | None = None
    _found: dict[str, dict[str, Kernel]] = field(default_factory=dict)

    def find(self, kernel: PlannedKernel) -> Kernel:
        return self._look_up("network", kernel.name, "the network")

    def check(self, plan: Plan) -> None:
        """Raise ExecutionError for a missing kernel of the plan, or a kernel of a wrong size.

        Kernels may state their `input_dim` and `output_dim`; the computation may be another network's.
        """
        self.check_frozen(plan)
        given = [each for each in (self.network, self.to_update, self.to_store_stats) if each is not None]
        for kernel in plan.kernels:
            if kernel.output_width >= 0:
                self.find(kernel)
            if kernel.stores_stats:
                self.for_statistics(kernel)
            if kernel.is_updated:
                self.for_update(kernel, plan.need_model_derivative)
            for kernels in given:
                found = kernels.get(kernel.name)
                _check_width(kernel.name, "input", kernel.input_width, getattr(found, "input_dim", -1))
                _check_width(kernel.name, "output", kernel.output_width, getattr(found, "output_dim", -1))

    def check_frozen(self, plan: Plan) -> None:
        """Raise ExecutionError if the network to update would change a kernel that the plan leaves as it is.

        Kernels may state that they are frozen, `is_frozen`; those that state nothing are.
        """
        if self.to_update is None:
            return
        for kernel in plan.kernels:
            if kernel.is_frozen and not getattr(self.to_update.get(kernel.name), "is_frozen", True):
                raise ExecutionError(
                    f"the computation was compiled with component '{kernel.name}' frozen, and has no gradient for it, "
                    "but in the network to update it has a learning rate: compile again, without it in the request's "
                    "`frozen`"
                )

    def for_statistics(self, kernel: PlannedKernel) -> Kernel:
        """Returns the kernel that takes forward statistics: of `to_store_stats`, else `to_update`, else the network."""
        if self.to_store_stats is not None:
            return self._look_up("to_store_stats", kernel.name, "the network to store statistics")
        if self.to_update is not None:
            return self._look_up("to_update", kernel.name, "the network to update")
        return self.find(kernel)

    def for_update(self, kernel: PlannedKernel, need_model_derivative: bool) -> Kernel | None:
        """Returns the kernel that a backward step updates; one without parameters only takes statistics there.

        A given network has None in the place of a frozen kernel.
        """
        if kernel.updatable and not need_model_derivative:
            return None
        if kernel.updatable and self.to_update is None:
            raise ExecutionError(
                f"the computation updates component '{kernel.name}', but no network to update was given: "
                "pass nnet_to_update=..., for instance nnet.gradient_copy() for plain gradients"
            )
        if not kernel.updatable and self.to_store_stats is not None:
            return self._look_up("to_store_stats", kernel.name, "the network to store statistics")
        return None if self.to_update is None else self._look_up("to_update", kernel.name, "the network to update")

    def are_the_same(self) -> bool:
        """Tells whether the network still has all kernels found so far, by name."""
        for where, found in self._found.items():
            if not all(map(is_, map(getattr(self, where).get, found), found.values())):
                return False
        return True

    def _look_up(self, where: str, name: str, description: str) -> Kernel:
        kernels: Mapping[str, Kernel] = getattr(self, where)
        whole = whole_kernel(name, kernels)
        if whole not in kernels:
            hint = did_you_mean(whole, kernels)
            raise ExecutionError(f"{description} has no component '{whole}'" + (f" ({hint})" if hint else ""))
        found: Any = kernels[whole]
        self._found.setdefault(where, {})[whole] = found
        sliced = named_slice(name) if whole != name else None
        return found if sliced is None else found.slice(*sliced[1:])


def _check_width(name: str, side: str, width: int, stated: int) -> None:
    if min(width, stated) >= 0 and stated != width:
        raise ExecutionError(
            f"component '{name}' has {side}-dim {stated} in a given network, but {width} in the one that the "
            "computation was compiled for"
        )
