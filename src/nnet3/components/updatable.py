"""Components with parameters: learning rates, max-change, l2, and their header in the file (components.md 1.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.summary import format_number
from nnet3.text import ConfigLine

if TYPE_CHECKING:
    from nnet3.kaldi_io import Reader, Writer


@dataclass(frozen=True)
class UpdatableHeader:
    """What the file of an updatable component begins with; each token may be absent, whatever version wrote it."""

    learning_rate: float = 0.001
    learning_rate_factor: float = 1.0
    max_change: float = 0.0
    l2_regularize: float = 0.0
    is_gradient: bool = False

    @classmethod
    def read(cls, reader: Reader) -> UpdatableHeader:
        factor = reader.real() if reader.accept("<LearningRateFactor>") else 1.0
        is_gradient = reader.boolean() if reader.accept("<IsGradient>") else False
        max_change = reader.real() if reader.accept("<MaxChange>") else 0.0
        l2_regularize = reader.real() if reader.accept("<L2Regularize>") else 0.0
        rate = reader.real() if reader.accept("<LearningRate>") else 0.001
        return cls(rate, factor, max_change, l2_regularize, is_gradient)


class UpdatableComponent(Component):
    """`learning_rate` is the actual rate: the underlying one times `learning_rate_factor`."""

    #: 0: no constraint; > 0: W W^T = scale^2 I with this scale; < 0: with a floating scale.
    orthonormal_constraint: float = 0.0
    #: The attributes that hold an OnlineNaturalGradient.
    preconditioner_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        self.learning_rate = 0.001
        self.learning_rate_factor = 1.0
        self.max_change = 0.0
        self.l2_regularize = 0.0
        self.is_gradient = False

    def configure_updatable(self, line: ConfigLine) -> None:
        """Read the four keys that every updatable type has."""
        self.learning_rate = line.number("learning-rate", 0.001, minimum=0.0)
        self.learning_rate_factor = line.number("learning-rate-factor", 1.0, minimum=0.0)
        self.max_change = line.number("max-change", 0.0, minimum=0.0)
        self.l2_regularize = line.number("l2-regularize", 0.0, minimum=0.0)

    def write_header(self, writer: Writer) -> None:
        if self.learning_rate_factor != 1.0:
            writer.token("<LearningRateFactor>")
            writer.real(self.learning_rate_factor)
        if self.is_gradient:
            writer.token("<IsGradient>")
            writer.boolean(True)
        if self.max_change > 0.0:
            writer.token("<MaxChange>")
            writer.real(self.max_change)
        if self.l2_regularize > 0.0:
            writer.token("<L2Regularize>")
            writer.real(self.l2_regularize)
        writer.token("<LearningRate>")
        writer.real(self.learning_rate)

    def copy_header(self, other: UpdatableHeader | UpdatableComponent) -> None:
        """Take over the rates, limits and flags of a header or of another component."""
        self.learning_rate = other.learning_rate
        self.learning_rate_factor = other.learning_rate_factor
        self.max_change = other.max_change
        self.l2_regularize = other.l2_regularize
        self.is_gradient = other.is_gradient

    def info(self) -> str:
        text = f"{super().info()}, learning-rate={format_number(self.learning_rate)}"
        if self.is_gradient:
            text += ", is-gradient=true"
        if self.l2_regularize != 0.0:
            text += f", l2-regularize={format_number(self.l2_regularize)}"
        if self.learning_rate_factor != 1.0:
            text += f", learning-rate-factor={format_number(self.learning_rate_factor)}"
        if self.max_change > 0.0:
            text += f", max-change={format_number(self.max_change)}"
        return text

    @property
    def updatable(self) -> UpdatableComponent | None:
        return self if self.properties & Properties.UPDATABLE else None

    def set_learning_rate(self, rate: float) -> None:
        self.learning_rate = rate * self.learning_rate_factor

    def set_actual_learning_rate(self, rate: float) -> None:
        """Set the rate itself, whatever the factor."""
        self.learning_rate = rate

    def set_as_gradient(self) -> None:
        self.learning_rate = 1.0
        self.is_gradient = True

    def freeze_natural_gradient(self, frozen: bool) -> None:
        for name in self.preconditioner_names:
            getattr(self, name).frozen = frozen

    def dot(self, other: Component) -> float:
        """Sum of products of all parameters with those of a component of the same type and size."""
        theirs = other.parameters()
        return sum(float((mine.double() * theirs[name].double()).sum()) for name, mine in self.parameters().items())

    def perturb_(self, stddev: float) -> None:
        """Add normal noise of this standard deviation to every parameter."""
        for tensor in self.parameters().values():
            noise: Tensor = self.rng.normal_tensor(*tensor.shape)
            tensor.add_(noise.to(tensor), alpha=stddev)
