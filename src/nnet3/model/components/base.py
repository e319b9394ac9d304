"""The base class of components: configuration, arithmetic, on-disk form and the generic operations on it.

A component maps rows to rows. `forward` and `backward` *overwrite* the tensors they are given to fill
(Kaldi's "adds" flags only say who zeroes a buffer, so they have no counterpart here); inputs may be
column slices of wider matrices, so a kernel must not assume contiguous rows.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor

from nnet3.base.native.operations import Operations
from nnet3.engine.ir.matrices import Matrix, as_tensor, warn_of_gradient
from nnet3.errors import ComponentError
from nnet3.model.components.component_fields import ComponentFields
from nnet3.model.components.field_table import Field
from nnet3.model.components.index_rules import IndexRules
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from nnet3.model.components.promises import PromisesToProofs
from nnet3.model.components.random_source import RandomSource, SharedNumbers
from nnet3.model.components.state import ComponentState
from nnet3.model.components.value_kinds import BOOLEAN, RATE


class Properties(enum.IntFlag):
    """Promises of a component, with values as in Kaldi: the compiler asks for these, never for types."""

    NONE = 0
    SIMPLE = 0x0001  # output row i depends on input row i only, with the same index
    UPDATABLE = 0x0002  # has parameters
    PROPAGATE_IN_PLACE = 0x0004  # forward may be given the same memory as input and output
    REORDERS_INDEXES = 0x0010  # orders and pads its rows itself
    BACKPROP_NEEDS_INPUT = 0x0040
    BACKPROP_NEEDS_OUTPUT = 0x0080
    BACKPROP_IN_PLACE = 0x0100  # input derivative may share memory with the output derivative
    IN_PLACE = PROPAGATE_IN_PLACE | BACKPROP_IN_PLACE
    STORES_STATS = 0x0200  # store_stats() wants to be called after each forward
    USES_MEMO = 0x1000  # forward returns something that backward must be given
    RANDOM = 0x2000  # draws random numbers; has a test mode


#: A component that a backward pass changes, if any.
Updated: TypeAlias = "Component | None"
#: A derivative to be filled, or None if nobody wants it.
Deriv: TypeAlias = "Tensor | None"


class Component(ComponentFields, ComponentState, IndexRules, PromisesToProofs, abc.ABC):
    """Base class of all components.

    A subclass sets `properties` and implements `forward` and `backward`, or only `fill_deriv` if it learns nothing. It
    names its tensors: `parameter_names` (trained), `constant_names` (fixed), `statistic_names` (float64 tensors or
    Python floats that add up over minibatches). A run changes parameters and statistics, and nothing else.

    `fields` gives its configuration, its form in files and its info line. Irregular types also override
    `initial_values`, `from_config`, `read`, `write_body` or `info`.
    """

    properties: Properties = Properties.NONE
    #: `backward` uses only the signs of the output value.
    backprop_needs_sign_only: ClassVar[bool] = False
    #: Given an empty output, `backward` makes it again of input and memo, to the same bits.
    backprop_takes_input: ClassVar[bool] = False
    #: `forward_again` gives to the same bits what `forward` gave, for little: it multiplies no matrices.
    repeats_forward: ClassVar[bool] = False
    #: The largest derivative of each function whose derivatives `deriv_sum` adds up, if training may saturate it.
    largest_derivs: ClassVar[tuple[float, ...]] = ()

    def __init__(self) -> None:
        self.rng = RandomSource(0)

    # ---- arithmetic: the kernels ----

    @abc.abstractmethod
    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> Any:
        """Fills y (rows, output_dim) from x (rows, input_dim); returns the memo for `backward`, or None.

        `indexes`: the result of `load_indexes`, for components that precompute something from the rows' indexes.
        """

    def forward_again(self, x: Tensor, y: Tensor, memo: Any, indexes: Any = None) -> None:
        """Fills y once more, as the `forward` that returned `memo` did."""
        self.forward(x, y, indexes)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        """Fills x_deriv (rows, input_dim), unless None, from y_deriv (rows, output_dim); updates `to_update`, if given.

        `to_update` is a component of the same type (self, a copy or a gradient copy): its parameters move by its
        own learning rate times the (preconditioned) gradient, and its statistics are added to. x and y hold values
        only if `properties` says that backprop needs them.
        """
        if x_deriv is not None:
            self.fill_deriv(x, y, y_deriv, memo, x_deriv, indexes)

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        """Fills x_deriv from y_deriv: the whole backward pass of a component that updates nothing; see `backward`."""
        raise ComponentError(f"{self.type_name} has no backward pass: its class must define backward or fill_deriv")

    def store_stats(self, x: Tensor, y: Tensor, memo: Any) -> None:
        """Adds statistics of x, y and the memo of a `forward` to the component; called if STORES_STATS is set."""

    # ---- the same for a person at a prompt ----

    def propagate(self, x: Matrix) -> tuple[Tensor, Any]:
        """Returns output (rows, output_dim) and memo for an input (rows, input_dim), for simple components.

        The input is converted to the dtype of the parameters. Raises ComponentError when the number of columns is
        wrong or the component needs indexes.
        """
        x = self._as_matrix(x, self.input_dim, "input")
        self._check_usable_alone()
        for name, parameter in self.parameters().items():
            warn_of_gradient(parameter, f"{self.type_name}: {name}")
        y = x.new_empty(x.shape[0], self.output_dim)
        with torch.no_grad():
            memo = self.forward(x, y)
        return y, memo

    def backprop(
        self, x: Matrix, y: Matrix, y_deriv: Matrix, memo: Any = None, to_update: Component | None = None
    ) -> Tensor:
        """Returns the derivative with respect to the input, (rows, input_dim); see `backward` for `to_update`."""
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

    #: True if updates leave the parameters as they are, if there are any.
    is_frozen: bool = True

    def leaves(self) -> Iterator[tuple[str, Component]]:
        """Yields the component, or the parts of a composite, each after the prefix of its tensors' names."""
        yield "", self

    @property
    def natural_gradients(self) -> dict[str, OnlineNaturalGradient]:
        """The natural-gradient estimates of this component (not of its parts), by name."""
        return {}

    #: True if y = x W^T + b with the parameters linear_params W and bias_params b.
    is_affine: ClassVar[bool] = False
    #: True if `slice(first, end, adds, goes_backward)` is a kernel of these columns alone; see
    #: `nnet3.engine.ir.kernel.slice_name`.
    has_slices: bool = False
    #: True if such a slice can pack its weights; see `nnet3.engine.ir.kernel.KernelInfo.packs`.
    slices_pack: ClassVar[bool] = True
    #: True if training normalises by each minibatch, and test mode by the statistics that `store_stats` has collected.
    has_running_statistics: ClassVar[bool] = False
    #: True if an output needs all inputs that it wants, so that it does not depend on which are given.
    needs_all_inputs: bool = True
    #: True if it behaves as in decoding, where that differs from training.
    test_mode: bool = False

    # ---- what proofs take for granted ----

    @property
    def rows_apart(self) -> bool:
        """True if output row i depends on no input row but row i."""
        return Properties.SIMPLE in self.properties

    @property
    def backprop_rows_apart(self) -> bool:
        """True if a row of the derivative of the input depends on no other rows than its own."""
        return self.rows_apart

    @property
    def updatable(self) -> UpdatableComponent | None:
        """The component itself, if it has parameters, and so learning rates."""
        return None

    @property
    def dropout_proportion(self) -> float | None:
        """The zeroed proportion; None for components without dropout."""
        return None

    @property
    def test_mode_scale(self) -> float | None:
        """The factor of dropout in test mode; None for components that are no dropout."""
        return None

    def as_fixed(self) -> Component | None:
        """Returns a new component that does the same with constants in the place of parameters; None if no type can."""
        return None

    def without_repeats(self) -> Component | None:
        """Returns a new equivalent component with a copy of the parameters for each use; None if no type can."""
        return None

    @property
    def inference_only(self) -> str:
        """The reason for a missing backward pass, and a hint; empty for a component with a backward pass."""
        return ""

    def in_low_precision(self, products: torch.dtype) -> Component | None:
        """Returns a new equivalent component for inference with products of int8 or bfloat16; None if no type can.

        For float32 its weights are packed for speed; None if packing gains nothing.

        Raises ComponentError if the component's numbers do not allow it.
        """
        return None

    # ---- the kernel protocol of nnet3.engine.ir: one input matrix, or none ----

    def run_forward(self, inputs: Sequence[Tensor], output: Tensor, indexes: Any) -> Any:
        return self.forward(inputs[0] if inputs else output.new_empty(0, self.input_dim), output, indexes)

    def run_again(self, inputs: Sequence[Tensor], output: Tensor, memo: Any, indexes: Any) -> None:
        self.forward_again(inputs[0], output, memo, indexes)

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

    def replay_state(self) -> list[object] | None:
        """Returns all that `forward` depends on, contents of tensors left out; None if `forward` draws numbers."""
        return list(vars(self).values())

    # ---- native code ----

    #: True in networks that `Nnet.pack` gives: where native code can, it computes what `forward` computes.
    is_native: bool = False

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        """Returns operations equivalent to `forward`, on tensors that are attributes; None without such operations.

        An inherited `native` holds for the `forward` beside it, and not for an overriding `forward`.
        """
        return None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in cls.__mro__:
            if "native" in vars(base):
                return
            if "forward" in vars(base) or "run_forward" in vars(base):
                cls.native = Component.native  # type: ignore[method-assign]
                return

    def native_forward(self, inputs: Sequence[Tensor], output: Tensor, indexes: Any) -> Operations | None:
        """Returns the same in the form of the kernel protocol."""
        return self.native(inputs[0], output) if inputs and self.replay_state() is not None else None

    # ---- randomness and modes: no effect on components that have none ----

    def seed_random(self, seed: int, scalars: SharedNumbers | None = None) -> None:
        """Makes later random draws of the component a function of `seed`; scalars come from `scalars`, if given."""
        self.rng = RandomSource(seed, scalars)

    def set_dropout_proportion(self, proportion: float) -> None:
        """Zeros this proportion of elements from now on; no effect on components without dropout."""

    def set_test_mode(self, test_mode: bool) -> None:
        """Makes the component behave as in decoding (True) or in training; components with one behaviour ignore it."""

    # ---- learning rates: no effect without parameters (UpdatableComponent overrides) ----

    def set_learning_rate(self, rate: float) -> None:
        """Sets the underlying learning rate; the actual one is this times the component's factor."""

    def freeze_natural_gradient(self, frozen: bool) -> None:
        """Uses natural-gradient estimates without changing them (True), or changes them again (False)."""

    def __repr__(self) -> str:
        return f"<{self.type_name} {self.input_dim} -> {self.output_dim}>"


#: What the file of an updatable component begins with; each token may be absent, whatever version wrote it.
HEADER = (
    Field("learning_rate_factor", RATE, default=1.0, optional=True, omitted=1.0, hidden=1.0),
    Field("is_gradient", BOOLEAN, None, optional=True, omitted=False, hidden=False),
    Field("max_change", RATE, default=0.0, optional=True, omitted=0.0, hidden=0.0),
    Field("l2_regularize", RATE, default=0.0, optional=True, omitted=0.0, hidden=0.0),
    Field("learning_rate", RATE, default=0.001, optional=True),
)


class UpdatableComponent(Component):
    """`learning_rate` is the actual rate: the underlying one times `learning_rate_factor`."""

    header_fields = HEADER
    header_shown = ("learning_rate", "is_gradient", "l2_regularize", "learning_rate_factor", "max_change")
    #: 0: no constraint; > 0: W W^T = scale^2 I with this scale; < 0: with a floating scale.
    orthonormal_constraint: float = 0.0
    #: The attributes that hold an OnlineNaturalGradient.
    preconditioner_names: ClassVar[tuple[str, ...]] = ()
    #: Whether `freeze_natural_gradient` does anything: in Kaldi some types go on learning in both steps of backstitch.
    can_freeze: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.learning_rate = 0.001
        self.learning_rate_factor = 1.0
        self.max_change = 0.0
        self.l2_regularize = 0.0
        self.is_gradient = False

    def copy_header(self, other: UpdatableComponent) -> None:
        """Takes over the rates, limits and flags of another component."""
        for field in HEADER:
            setattr(self, field.name, getattr(other, field.name))

    @property
    def updatable(self) -> UpdatableComponent | None:
        return self if self.properties & Properties.UPDATABLE else None

    @property
    def is_frozen(self) -> bool:  # type: ignore[override]
        return self.learning_rate == 0.0

    def set_learning_rate(self, rate: float) -> None:
        self.learning_rate = rate * self.learning_rate_factor

    def set_actual_learning_rate(self, rate: float) -> None:
        """Sets the rate itself, whatever the factor."""
        self.learning_rate = rate

    def set_as_gradient(self) -> None:
        self.learning_rate = 1.0
        self.is_gradient = True

    def forget_natural_gradient(self) -> None:
        """Begins new estimates with the same settings."""
        for name in self.preconditioner_names:
            setattr(self, name, getattr(self, name).fresh())

    @property
    def natural_gradients(self) -> dict[str, OnlineNaturalGradient]:
        return {name: getattr(self, name) for name in self.preconditioner_names}

    def freeze_natural_gradient(self, frozen: bool) -> None:
        for preconditioner in self.natural_gradients.values():
            preconditioner.frozen = frozen and self.can_freeze

    def add_rows(self, target: Tensor, rows: Tensor, preconditioner: OnlineNaturalGradient | None) -> None:
        """target += rate c sum of the rows of G', with (G', c) = PD(G); G itself in a gradient copy, or for None."""
        rate = self.learning_rate
        if preconditioner is not None and not self.is_gradient:
            rows, scale = preconditioner.precondition(rows)
            rate *= scale
        target.add_(rows.sum(0), alpha=rate)

    def dot(self, other: Component) -> float:
        """Sums the products of all parameters with those of a component of the same type and size."""
        theirs = other.parameters()
        return sum(float((mine.double() * theirs[name].double()).sum()) for name, mine in self.parameters().items())
