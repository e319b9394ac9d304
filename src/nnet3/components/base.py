"""What every component is: configuration, arithmetic, on-disk form and the generic operations on it.

A component maps rows to rows. `forward` and `backward` *overwrite* the tensors they are given to fill
(Kaldi's "adds" flags only say who zeroes a buffer, so they have no counterpart here); inputs may be
column slices of wider matrices, so a kernel must not assume contiguous rows.
"""

from __future__ import annotations

import abc
import copy
import enum
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nnet3.components.index_arrays import IndexArrays, load_fields
from nnet3.components.random_source import RandomSource
from nnet3.computation.matrices import Matrix, as_tensor
from nnet3.errors import ComponentError
from nnet3.kaldi_io import Writer

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.components.updatable import UpdatableComponent
    from nnet3.kaldi_io import Reader
    from nnet3.text import ConfigLine


class Properties(enum.IntFlag):
    """What a component promises (components.md 0.3, same values): the compiler asks for these, never for types."""

    NONE = 0
    SIMPLE = 0x0001  # output row i depends on input row i only, with the same index
    UPDATABLE = 0x0002  # has parameters
    PROPAGATE_IN_PLACE = 0x0004  # forward may be given the same memory as input and output
    REORDERS_INDEXES = 0x0010  # orders and pads its rows itself
    BACKPROP_NEEDS_INPUT = 0x0040
    BACKPROP_NEEDS_OUTPUT = 0x0080
    BACKPROP_IN_PLACE = 0x0100  # input derivative may share memory with the output derivative
    STORES_STATS = 0x0200  # store_stats() wants to be called after each forward
    USES_MEMO = 0x1000  # forward returns something that backward must be given
    RANDOM = 0x2000  # draws random numbers; has a test mode


class Component(abc.ABC):
    """Base class of all components.

    A subclass sets `type_name` and `properties`, names its tensors in `parameter_names` (trained),
    `constant_names` (fixed) and `statistic_names` (float64 tensors or Python floats that add up over
    minibatches), and implements `from_config`, `read`, `write_body`, `forward`, `backward` and `info`.
    """

    type_name: ClassVar[str] = ""
    properties: Properties = Properties.NONE
    parameter_names: ClassVar[tuple[str, ...]] = ()
    constant_names: ClassVar[tuple[str, ...]] = ()
    statistic_names: ClassVar[tuple[str, ...]] = ()

    input_dim: int
    output_dim: int

    def __init__(self) -> None:
        self.rng = RandomSource(0)

    # ---- configuration and files ----

    @classmethod
    @abc.abstractmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        """A new component from the keys of a config line; initial values are drawn from `rng`.

        Raises ConfigError at the offending key. The caller checks for left-over keys.
        """

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read the fields after the opening token, up to and including the closing token."""
        raise ComponentError(f"{cls.type_name} defines no read: it cannot be read from a file")

    def write_body(self, writer: Writer) -> None:
        """Write the fields between the opening and the closing token."""
        raise ComponentError(f"{self.type_name} defines no write_body: it cannot be written to a file")

    def write_to(self, writer: Writer) -> None:
        writer.token(f"<{self.type_name}>")
        self.write_body(writer)
        writer.token(f"</{self.type_name}>")

    def write(self, path: str, *, binary: bool = True) -> None:
        """Write the component alone to a file (atomically), as Kaldi writes one."""
        writer = Writer(binary)
        writer.header()
        self.write_to(writer)
        writer.newline()
        writer.write_to(path)

    def info(self) -> str:
        """Kaldi's one-line description."""
        return f"{self.type_name}, input-dim={self.input_dim}, output-dim={self.output_dim}"

    # ---- arithmetic: the kernels ----

    @abc.abstractmethod
    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> Any:
        """Fill y (rows, output_dim) from x (rows, input_dim); return the memo for `backward`, or None."""

    @abc.abstractmethod
    def backward(
        self,
        x: Tensor,
        y: Tensor,
        y_deriv: Tensor,
        memo: Any,
        to_update: Component | None,
        x_deriv: Tensor | None,
        indexes: Any = None,
    ) -> None:
        """Fill x_deriv (unless None) from y_deriv and, if `to_update` is given, update it.

        `to_update` is a component of the same type (self, a copy or a gradient copy): its parameters move by its
        own learning rate times the (preconditioned) gradient, and its statistics are added to. x and y hold values
        only if `properties` says that backprop needs them.
        """

    def store_stats(self, x: Tensor, y: Tensor, memo: Any) -> None:
        """Add this minibatch's forward statistics; called after `forward` if STORES_STATS is set."""

    # ---- the same for a person at a prompt ----

    def propagate(self, x: Matrix) -> tuple[Tensor, Any]:
        """Output (rows, output_dim) and memo for an input (rows, input_dim). For simple components.

        The input is converted to the dtype of the parameters. Raises ComponentError when the number of columns is
        wrong or the component needs indexes.
        """
        x = self._as_matrix(x, self.input_dim, "input")
        self._check_usable_alone()
        y = x.new_empty(x.shape[0], self.output_dim)
        with torch.no_grad():
            memo = self.forward(x, y)
        return y, memo

    def backprop(
        self,
        x: Matrix,
        y: Matrix,
        y_deriv: Matrix,
        memo: Any = None,
        to_update: Component | None = None,
    ) -> Tensor:
        """Derivative with respect to the input, (rows, input_dim); see `backward` for `to_update`."""
        x = self._as_matrix(x, self.input_dim, "input")
        y = self._as_matrix(y, self.output_dim, "output")
        y_deriv = self._as_matrix(y_deriv, self.output_dim, "output derivative")
        self._check_usable_alone()
        if to_update is not None and not self._is_alike(to_update):
            other = f"{to_update!r}, which is not of the same type and size as {self!r}"
            raise ComponentError(f"cannot update {other}: give a .copy() or .gradient_copy()")
        if not x.shape[0] == y.shape[0] == y_deriv.shape[0]:
            counts = f"{x.shape[0]}, {y.shape[0]} and {y_deriv.shape[0]}"
            raise ComponentError(f"{self.type_name}: input, output and output derivative have {counts} rows")
        x_deriv = torch.empty_like(x)
        with torch.no_grad():
            self.backward(x, y, y_deriv, memo, to_update, x_deriv)
        return x_deriv

    def _as_matrix(self, matrix: Matrix, dim: int, what: str) -> Tensor:
        own = (getattr(self, name) for name in (*self.parameter_names, *self.constant_names))
        dtype = next((tensor.dtype for tensor in own if tensor.is_floating_point()), None)
        tensor = as_tensor(matrix, f"{self.type_name}: {what}", dtype=dtype, error=ComponentError)
        if tensor.ndim != 2 or tensor.shape[1] != dim:
            raise ComponentError(f"{self.type_name}: {what} must be (rows, {dim}), got {tuple(tensor.shape)}")
        return tensor

    def _is_alike(self, other: Component) -> bool:
        mine, theirs = ({name: t.shape for name, t in c.parameters().items()} for c in (self, other))
        return type(self) is type(other) and mine == theirs

    def _check_usable_alone(self) -> None:
        if not self.identity_indexes or self.needs_indexes:
            raise ComponentError(f"{self.type_name} needs to know its rows' indexes: run it inside a network")

    # ---- what others ask instead of a type ----

    #: Whether y = x W^T + b with the parameters linear_params W and bias_params b.
    is_affine: ClassVar[bool] = False
    #: Whether training normalises by each minibatch, and test mode by the statistics that `store_stats` has collected.
    has_running_statistics: ClassVar[bool] = False
    #: Whether it behaves as in decoding, where that differs from training.
    test_mode: bool = False

    @property
    def updatable(self) -> UpdatableComponent | None:
        """This component, if it has parameters: it has learning rates then."""
        return None

    @property
    def needs_all_inputs(self) -> bool:
        """Whether an output needs all inputs that it wants, so that it does not depend on which are given."""
        return True

    @property
    def dropout_proportion(self) -> float | None:
        """The proportion that is zeroed, None for components that are no dropout."""
        return None

    @property
    def test_mode_scale(self) -> float | None:
        """What dropout in test mode multiplies by; None for anything else."""
        return None

    def as_fixed(self) -> Component | None:
        """A new component that does the same with constants in the place of parameters; None if no type can."""
        return None

    def without_repeats(self) -> Component | None:
        """A new component that does the same with a copy of the parameters for each use; None if no type can."""
        return None

    # ---- the kernel protocol of nnet3.computation: one input matrix, or none ----

    def run_forward(self, inputs: Sequence[Tensor], output: Tensor, indexes: Any) -> Any:
        return self.forward(inputs[0] if inputs else output.new_empty(0, self.input_dim), output, indexes)

    def run_stats(self, inputs: Sequence[Tensor], output: Tensor, memo: Any) -> None:
        self.store_stats(inputs[0] if inputs else output.new_empty(0, self.input_dim), output, memo)

    def run_backward(
        self,
        inputs: Sequence[Tensor],
        output: Tensor,
        output_deriv: Tensor,
        memo: Any,
        to_update: Component | None,
        input_derivs: Sequence[Tensor | None],
        accumulate: Sequence[bool],
        indexes: Any,
    ) -> None:
        x = inputs[0] if inputs else output_deriv.new_empty(0, self.input_dim)
        self.backward(x, output, output_deriv, memo, to_update, input_derivs[0] if input_derivs else None, indexes)

    # ---- index rules; only components that are not simple override these ----

    #: Whether output index (n, t, x) needs exactly input index (n, t, x), in the same row order.
    identity_indexes: bool = True
    #: Whether `forward` must be given the result of `precompute_indexes`.
    needs_indexes: bool = False
    #: What `load_indexes` makes.
    indexes_type: ClassVar[Callable[..., Any]] = SimpleNamespace

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        """Input indexes that outputs (rows, 3) may use: (rows, slots, 3). Components without input have no slots."""
        return outputs[:, np.newaxis, :]

    def computable(self, outputs: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """From which wanted inputs are available (rows, slots): computable (rows,) and inputs used (rows, slots)."""
        return np.asarray(available.all(axis=1)), available

    def reorder_indexes(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The row orders this component wants for its input and output; padding rows have t = NO_TIME.

        Called only if REORDERS_INDEXES is set.
        """
        return inputs, outputs

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, *, need_backprop: bool) -> IndexArrays:
        """What forward and backward need to know of the rows (input and output index tables, after reordering).

        NumPy arrays of integers or truth values by name, numbers as arrays without axes: data that can be saved.
        Called only if `needs_indexes` is set.
        """
        raise ComponentError(f"{self.type_name} has needs_indexes, but defines no precompute_indexes")

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device | str) -> Any:
        """The object that forward and backward get as `indexes`, made of the arrays of `precompute_indexes`.

        Unless overridden, an `indexes_type` whose fields are named as the arrays are: tensors on the device (integers
        as int64), and plain numbers for arrays without axes.
        """
        return self.indexes_type(**load_fields(arrays, device))

    # ---- generic operations ----

    def parameters(self) -> dict[str, Tensor]:
        """The trained tensors by name (the tensors themselves, not copies)."""
        return {name: getattr(self, name) for name in self.parameter_names}

    @property
    def num_parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.parameters().values())

    def scale_(self, scale: float) -> None:
        """Multiply parameters and statistics; scale 0 sets them to zero even where they are NaN."""
        for tensor in self.parameters().values():
            tensor.zero_() if scale == 0 else tensor.mul_(scale)
        self.scale_stats_(scale)

    def scale_stats_(self, scale: float) -> None:
        """Multiply the statistics alone."""
        for name in self.statistic_names:
            value = getattr(self, name)
            if isinstance(value, Tensor):
                value.zero_() if scale == 0 else value.mul_(scale)
            else:
                setattr(self, name, 0.0 if scale == 0 else value * scale)

    def add_(self, alpha: float, other: Component) -> None:
        """Add alpha times the parameters and statistics of a component of the same type and size."""
        theirs = other.parameters()
        for name, tensor in self.parameters().items():
            tensor.add_(theirs[name], alpha=alpha)
        self.add_stats_(alpha, other)

    def add_stats_(self, alpha: float, other: Component) -> None:
        """Add alpha times the statistics alone."""
        for name in self.statistic_names:
            self._add_statistic(name, alpha, getattr(other, name))

    def _add_statistic(self, name: str, alpha: float, value: Tensor | float) -> None:
        mine = getattr(self, name)
        if not isinstance(value, Tensor):
            setattr(self, name, mine + alpha * value)
        elif value.numel():
            if mine.numel() == 0:  # never stored before
                mine = torch.zeros_like(value)
                setattr(self, name, mine)
            mine.add_(value, alpha=alpha)

    def zero_stats(self) -> None:
        self.scale_stats_(0.0)

    def copy(self) -> Self:
        """An independent copy, natural-gradient and random state included."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = copy.copy(self)
        memo[id(self)] = twin
        for tensor in self.__dict__.values():
            if isinstance(tensor, Tensor) and _is_part(tensor):
                memo.setdefault(id(tensor), tensor.clone())  # not with the whole buffer that it is a part of
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.items()
        return {name: v.clone() if isinstance(v, Tensor) and _is_part(v) else v for name, v in state}

    def shared_copy(self) -> Self:
        """Another component with the same tensors, whose modes can be set without changing those of this one."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def gradient_copy(self) -> Self:
        """A copy with parameters and statistics zero that collects plain gradients."""
        result = self.copy()
        result.scale_(0.0)
        result.set_as_gradient()
        return result

    def to(self, dtype: torch.dtype | None = None, device: str | torch.device | None = None) -> Self:
        """Convert in place: parameters and constants to dtype and device; statistics stay float64.

        The tensors stay the same objects, with other memory behind them: views of them that were taken before go on
        showing the old memory.
        """
        for name in (*self.parameter_names, *self.constant_names):
            tensor = getattr(self, name)
            tensor.data = tensor.data.to(dtype=dtype, device=device)
        for name in self.statistic_names:
            value = getattr(self, name)
            if isinstance(value, Tensor):
                value.data = value.data.to(device=device)
        return self

    def seed_random(self, seed: int) -> None:
        """Make all later random draws of this component a function of `seed`."""
        self.rng = RandomSource(seed)

    def set_dropout_proportion(self, proportion: float) -> None:
        """Zero this proportion from now on; no effect on components that are no dropout."""

    def set_test_mode(self, test_mode: bool) -> None:
        """Behave as in decoding (True) or in training; no effect on components that have one behaviour only."""

    # ---- learning rates: no effect without parameters (UpdatableComponent overrides) ----

    def set_learning_rate(self, rate: float) -> None:
        """Set the underlying learning rate; the actual one is this times the component's factor."""

    def set_as_gradient(self) -> None:
        """Learning rate 1 and plain gradients from now on."""

    def freeze_natural_gradient(self, frozen: bool) -> None:
        """Use natural-gradient estimates without changing them (True), or change them again (False)."""

    def __repr__(self) -> str:
        return f"<{self.type_name} {self.input_dim} -> {self.output_dim}>"


def _is_part(tensor: Tensor) -> bool:
    """Whether it is a view of more memory than its own."""
    return tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size()
