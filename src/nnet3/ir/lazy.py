"""LazyComputation: a computation that is made when it is looked at."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from nnet3.ir.computation import NnetComputation

_MAKING = threading.Lock()
_FIELDS = frozenset(field.name for field in fields(NnetComputation))


class LazyComputation(NnetComputation):
    """A computation of which some fields are known; the others are made when one of them is asked for.

    Then it is an NnetComputation like any other. Who has a plan for it can run it without its commands.
    """

    def __init__(self, make: Callable[[], NnetComputation], num_bytes: int, **known: Any) -> None:
        """`known`: the fields that are there already, all with a default of the class among them."""
        self.__dict__.update(known)
        self.stored_bytes, self._make = num_bytes, make

    def __getattr__(self, name: str) -> Any:
        if name not in _FIELDS:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        LazyComputation._complete(self)
        return self.__dict__[name]

    def _complete(self) -> None:
        """Make it, unless another thread has done so meanwhile: then this is of the other class already."""
        with _MAKING:
            if not isinstance(self, LazyComputation):
                return
            made = self._make()
            for name in _FIELDS:
                self.__dict__.setdefault(name, getattr(made, name))
            del self._make
            self.__class__ = NnetComputation  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        LazyComputation._complete(self)
        return self == other

    def __reduce_ex__(self, protocol: Any) -> Any:
        LazyComputation._complete(self)
        return self.__reduce_ex__(protocol)
