"""CompositeComponent: a chain of simple components used as one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from torch import Tensor
from typing_extensions import Self

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.text import ConfigLine
from nnet3.model.components.base import Component, Deriv, Properties, UpdatableComponent, Updated
from nnet3.model.components.component_types import create_from_line, read_from, register
from nnet3.model.components.field_table import assign, read_fields, write_fields
from nnet3.model.components.random_source import RandomSource, SharedNumbers
from nnet3.model.components.state import ComponentState
from nnet3.model.components.value_kinds import SIZE

_MOST_DEPTH = 4
_MOST_PARTS = 100_000


@register
class CompositeComponent(UpdatableComponent):
    """`parts` one after the other, applied to at most `max_rows_process` rows at a time (<= 0: to all rows at once).

    A part may itself be a composite, to a depth of 4 composites in each other (Kaldi: 1). Other parts must be simple
    and not random. Only the outputs are kept between forward and backward: backward computes the values inside again,
    and stores the forward statistics of the parts into the component to update.

    Parameters: those of the parts, named component1.linear_params and so on, counted from 1.
    """

    def __init__(self, parts: list[Component], max_rows_process: int = 4096) -> None:
        super().__init__()
        self.parts = parts
        self.max_rows_process = max_rows_process
        self.input_dim, self.output_dim = parts[0].input_dim, parts[-1].output_dim

    @property
    def properties(self) -> Properties:  # type: ignore[override]
        properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT
        if any(part.properties & Properties.UPDATABLE for part in self.parts):
            properties |= Properties.UPDATABLE
        if self.parts[-1].properties & (Properties.BACKPROP_NEEDS_OUTPUT | Properties.STORES_STATS):
            properties |= Properties.BACKPROP_NEEDS_OUTPUT
        return properties

    @property
    def rows_apart(self) -> bool:
        return all(part.rows_apart for part in self.parts)

    @property
    def backprop_rows_apart(self) -> bool:
        return all(part.backprop_rows_apart for part in self.parts)

    @property
    def is_linear(self) -> bool:
        return all(part.is_linear for part in self.parts)

    @property
    def backprop_is_linear(self) -> bool:
        return all(part.backprop_is_linear for part in self.parts)

    @property
    def counts_backward(self) -> bool:
        return any(part.counts_backward or part.properties & Properties.STORES_STATS for part in self.parts)

    def replay_state(self) -> list[object] | None:
        states = [part.replay_state() for part in self.parts]
        return None if None in states else [*vars(self).values(), *chain.from_iterable(filter(None, states))]

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        return cls._from_config(line, rng, depth=1)

    @classmethod
    def _from_config(cls, line: ConfigLine, rng: RandomSource, depth: int) -> Self:
        max_rows_process = line.integer("max-rows-process", 4096)
        count = line.integer("num-components", minimum=1, maximum=_MOST_PARTS)
        parts: list[Component] = []
        for number in range(1, count + 1):
            key = f"component{number}"
            nested = line.nested(key)
            nested.subject = f"{line.subject}, {key}" if line.subject else key
            part = cls._part_from_config(nested, rng, depth)
            problem = _problem(part, parts[-1] if parts else None)
            if problem:
                raise line.error(f"{key} {problem}", key)
            parts.append(part)
        return cls(parts, max_rows_process)

    @classmethod
    def _part_from_config(cls, line: ConfigLine, rng: RandomSource, depth: int) -> Component:
        if line.string("type") != cls.type_name:
            return create_from_line(line, rng)
        if depth == _MOST_DEPTH:
            raise line.error(f"more than {_MOST_DEPTH} composites in each other", "type")
        part = cls._from_config(line, rng, depth + 1)
        line.finish()
        return part

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls._read(reader, depth=1)

    @classmethod
    def _read(cls, reader: Reader, depth: int) -> Self:
        header = read_fields(reader, cls.header_fields)
        max_rows_process = reader.after("<MaxRowsProcess>").int32()
        reader.expect("<NumComponents>")
        count = SIZE.load(reader, "<NumComponents>", {})
        if count > _MOST_PARTS:
            raise reader.error(f"<NumComponents> must be at most {_MOST_PARTS}, got {count}")
        parts: list[Component] = []
        for number in range(1, count + 1):
            part = cls._read_part(reader, depth)
            problem = _problem(part, parts[-1] if parts else None)
            if problem:
                raise reader.error(f"component {number} of the composite {problem}")
            parts.append(part)
        reader.expect("</CompositeComponent>")
        component = cls(parts, max_rows_process)
        assign(component, cls.header_fields, header)
        return component

    @classmethod
    def _read_part(cls, reader: Reader, depth: int) -> Component:
        if not reader.accept(f"<{cls.type_name}>"):
            return read_from(reader)
        if depth == _MOST_DEPTH:
            raise reader.error(f"more than {_MOST_DEPTH} composites in each other")
        return cls._read(reader, depth + 1)

    def write_body(self, writer: Writer) -> None:
        write_fields(writer, self, self.header_fields)
        writer.token("<MaxRowsProcess>").int32(self.max_rows_process)
        writer.token("<NumComponents>").int32(len(self.parts))
        for part in self.parts:
            part.write_to(writer)

    def info(self) -> str:
        parts = (f"sub-component{number} = {{ {part.info()} }}" for number, part in enumerate(self.parts, start=1))
        return f"{self.type_name} {', '.join(parts)}"

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        for rows in self._chunks(len(x)):
            value = x[rows]
            for part in self.parts[:-1]:
                output = x.new_empty(len(value), part.output_dim)
                part.forward(value, output)
                value = output
            self.parts[-1].forward(value, y[rows])

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        assert to_update is None or isinstance(to_update, CompositeComponent)
        if to_update is None and x_deriv is None:
            return
        for rows in self._chunks(len(x)):
            self._backward_chunk(
                x[rows],
                None if y is None else y[rows],
                y_deriv[rows],
                to_update,
                None if x_deriv is None else x_deriv[rows],
            )

    def _backward_chunk(
        self, x: Tensor, y: Tensor | None, y_deriv: Tensor, to_update: CompositeComponent | None, x_deriv: Tensor | None
    ) -> None:
        values, memos = self._values_again(x, y)
        deriv = y_deriv
        for i in reversed(range(len(self.parts))):
            part = self.parts[i]
            part_to_update = to_update.parts[i] if to_update is not None else None
            if part_to_update is not None and part.properties & Properties.STORES_STATS:
                part_to_update.store_stats(values[i], values[i + 1], memos[i])
            part_x_deriv = x_deriv if i == 0 else x.new_empty(len(x), part.input_dim)
            part.backward(values[i], values[i + 1], deriv, memos[i], part_to_update, part_x_deriv)
            if part_x_deriv is not None:
                deriv = part_x_deriv

    def _values_again(self, x: Tensor, y: Tensor | None) -> tuple[list[Any], list[Any]]:
        """Returns the input of the first part and the output of each, and the memo of each part.

        The last output is what forward gave; the last part runs again only if it has a memo.
        """
        values: list[Any] = [x]
        memos: list[Any] = []
        for part in self.parts[:-1]:
            values.append(x.new_empty(len(x), part.output_dim))
            memos.append(part.forward(values[-2], values[-1]))
        last = self.parts[-1]
        values.append(y)
        if last.properties & Properties.USES_MEMO:
            values[-1] = x.new_empty(len(x), last.output_dim)
            memos.append(last.forward(values[-2], values[-1]))
        else:
            memos.append(None)
        return values, memos

    def _chunks(self, rows: int) -> list[slice]:
        size = self.max_rows_process if self.max_rows_process > 0 else max(rows, 1)
        return [slice(first, min(first + size, rows)) for first in range(0, rows, size)]

    def parameters(self) -> dict[str, Tensor]:
        return {
            f"component{number}.{name}": tensor
            for number, part in enumerate(self.parts, start=1)
            for name, tensor in part.parameters().items()
        }

    def scale_stats_(self, scale: float) -> None:
        for part in self.parts:
            part.scale_stats_(scale)

    def add_stats_(self, alpha: float, other: ComponentState) -> None:
        assert isinstance(other, CompositeComponent)
        for part, theirs in zip(self.parts, other.parts, strict=True):
            part.add_stats_(alpha, theirs)

    def zero_stats(self) -> None:
        for part in self.parts:
            part.zero_stats()

    def to(self, dtype: Any = None, device: Any = None) -> Self:
        for part in self.parts:
            part.to(dtype=dtype, device=device)
        return self

    def seed_random(self, seed: int, scalars: SharedNumbers | None = None) -> None:
        super().seed_random(seed, scalars)
        for number, part in enumerate(self.parts, start=1):
            part.seed_random(seed + number, scalars)

    def leaves(self) -> Iterator[tuple[str, Component]]:
        for number, part in enumerate(self.parts, start=1):
            for prefix, leaf in part.leaves():
                yield f"component{number}.{prefix}", leaf

    def shared_copy(self) -> Self:
        twin = super().shared_copy()
        twin.parts = [part.shared_copy() for part in self.parts]
        return twin

    def set_test_mode(self, test_mode: bool) -> None:
        for part in self.parts:
            part.set_test_mode(test_mode)

    @property
    def is_frozen(self) -> bool:  # type: ignore[override]
        return super().is_frozen and all(part.is_frozen for part in self.parts)

    def set_learning_rate(self, rate: float) -> None:
        super().set_learning_rate(rate)
        for part in self.parts:
            part.set_learning_rate(self.learning_rate)

    def set_as_gradient(self) -> None:
        super().set_as_gradient()
        for part in self.parts:
            part.set_as_gradient()

    def freeze_natural_gradient(self, frozen: bool) -> None:
        for part in self.parts:
            part.freeze_natural_gradient(frozen)


def _problem(part: Component, previous: Component | None) -> str:
    """Returns the reason why a part cannot follow the previous part, "" if it can."""
    if not part.properties & Properties.SIMPLE or part.properties & Properties.RANDOM:
        return f"is {part.type_name}, but only simple components that are not random can be put together"
    if previous is not None and previous.output_dim != part.input_dim:
        return f"has input-dim {part.input_dim}, but the component before it has output-dim {previous.output_dim}"
    return ""
