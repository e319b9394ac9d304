"""Plan: the offset of each matrix and the calls of each command, as plain data for saving."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from nnet3.errors import ExecutionError

PLAN_VERSION = 9


class Port(NamedTuple):
    """A matrix that a segment accepts or provides."""

    name: str
    num_rows: int
    num_cols: int
    submatrix: int
    is_deriv: bool

    @property
    def shape(self) -> tuple[int, int]:
        return self.num_rows, self.num_cols

    @property
    def bound_name(self) -> str:
        """The name for binding the port to outside memory."""
        return f"{self.name}.deriv" if self.is_deriv else self.name


class OutsidePlan(NamedTuple):
    """Outside memory that the program reads in place, or with `writable` changes."""

    name: str
    num_rows: int
    num_cols: int
    writable: bool


@dataclass(frozen=True)
class PlannedKernel:
    """The use of a kernel in a program. Widths are columns, -1 where it has no single input or does not run."""

    name: str
    updatable: bool
    is_frozen: bool = False
    input_width: int = -1
    output_width: int = -1
    is_updated: bool = False
    stores_stats: bool = False


class SegmentPlan(NamedTuple):
    """One run: commands [start, end), calls [first_call, end_call), the accepted and the provided matrices."""

    start: int
    end: int
    first_call: int
    end_call: int
    accepts: tuple[Port, ...]
    provides: tuple[Port, ...]

    def bound_results(self) -> dict[str, Port]:
        """Returns the provided matrices by the name for binding them, that of the port.

        A stream takes its state under the name under which it gives the next state, which is "NAME.after" here.
        """
        taken = {port.bound_name for port in self.accepts}
        return {port.bound_name + ".after" * (port.bound_name in taken): port for port in self.provides}


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that linking needs of a computation, for one dtype.

    * The arena has `num_bytes`; `lanes` are the dtypes of its views: `dtype`, and that of compressed matrices.
    * `views` (views, 10): lane, start, column, outer, inner, columns, outer stride, inner stride, iteration stride,
      unevenness.
      Row i * inner + j of a view begins at start + i * outer stride + j * inner stride; outer 0 is a plain matrix of
      `inner` rows. In lane l >= 0 numbers count elements of `lanes[l]`; lane -1 - k is outside memory `outside[k]`,
      where numbers count rows. In iteration r of a loop the view begins r * iteration stride later; if its unevenness
      is u > 0, it has the rows [first, first + count) from its start, given by row r of `uneven[u - 1]`, (iterations,
      2).
    * Call c has the opcode `opcodes[call_opcode[c]]`, integers call_args[call_start[c] : call_start[c + 1]] (views,
    tables,
      kernels, names in `texts`) and `call_number[c]`; it belongs to command `call_command[c]`.
    * `loops` (loops, 5): calls [first, end) run in so many iterations. In iteration r memos are numbered r * memo step
      higher,
      and precomputed entries r * precomputed step.
    * `indexes`: row numbers, int64. `precomputed`: the kernels' arrays derived from indexes.
    * `spans` (spans, 4): matrix (negative: compressed), first and last command, byte offset.
    * `are_views_apart`: views that share storage need not share it in other plans with these calls.
    """

    dtype: str
    num_bytes: int
    lanes: tuple[str, ...]
    outside: tuple[OutsidePlan, ...]
    views: np.ndarray
    opcodes: tuple[str, ...]
    texts: tuple[str, ...]
    call_opcode: np.ndarray
    call_start: np.ndarray
    call_args: np.ndarray
    call_number: np.ndarray
    call_command: np.ndarray
    loops: np.ndarray
    indexes: tuple[np.ndarray, ...]
    uneven: tuple[np.ndarray, ...]
    precomputed: tuple[Mapping[str, np.ndarray] | None, ...]
    kernels: tuple[PlannedKernel, ...]
    num_memos: int
    need_model_derivative: bool
    segments: tuple[SegmentPlan, ...]
    spans: np.ndarray
    are_views_apart: bool = False

    @property
    def num_calls(self) -> int:
        return len(self.call_opcode)

    @property
    def mark(self) -> tuple[int, ...]:
        """Numbers that differ between most plans (see `nnet3.engine.driver.proving.proves_all`)."""
        return self.num_calls, self.num_bytes, int(self.views.sum())

    def num_runs(self) -> int:
        """Returns how many calls all iterations of all loops make, and those outside of loops."""
        first, end, iterations = self.loops[:, :3].T
        return self.num_calls + int(((end - first) * (iterations - 1)).sum())

    def changed(self, **fields: Any) -> Plan:
        """Returns a plan with these fields, otherwise equal: `dataclasses.replace`, in a fifth of the time."""
        other = object.__new__(Plan)
        vars(other).update(vars(self), **fields)
        return other

    def segments_with_rows(self, rows: Iterator[int]) -> tuple[SegmentPlan, ...]:
        """Returns the segments with new numbers of rows for accepted and provided matrices."""

        def with_rows(ports: tuple[Port, ...]) -> tuple[Port, ...]:
            return tuple([Port(port[0], next(rows), *port[2:]) for port in ports])

        return tuple(
            [SegmentPlan(*each[:4], with_rows(each.accepts), with_rows(each.provides)) for each in self.segments]
        )

    def has_calls_of(self, other: Plan) -> bool:
        """True if both plans share the objects of their calls, as in a family: the plans then differ in numbers."""
        return all(getattr(self, name) is getattr(other, name) for name in _CALLS) and len(self.views) == len(
            other.views
        )

    def has_tables_of(self, other: Plan) -> bool:
        """True if both plans share the objects for tables and precomputed entries."""
        own, others = (*self.indexes, *self.precomputed), (*other.indexes, *other.precomputed)
        return len(own) == len(others) and all(map(is_, own, others))

    def byte_offset(self, matrix: int, command: int) -> int:
        """Returns the offset of a matrix in the arena at a command. Raises ExecutionError if it is not in memory."""
        key, first, last, offsets = self.spans.T
        for offset in offsets[(key == matrix) & (first <= command) & (command <= last)].tolist():
            return int(offset)
        state = "compressed" if matrix < 0 else "in memory"
        raise ExecutionError(f"command c{command} uses matrix m{abs(matrix)}, which is not {state} there")

    def to_data(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Returns a header that JSON can hold, and named arrays."""
        arrays: dict[str, np.ndarray] = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {f"indexes.{number}": table for number, table in enumerate(self.indexes)}
        arrays |= {f"uneven.{number}": table for number, table in enumerate(self.uneven)}
        header: dict[str, Any] = {name: getattr(self, name) for name in _PLAIN}
        header |= {"version": PLAN_VERSION, "num_indexes": len(self.indexes), "num_uneven": len(self.uneven)}
        header["precomputed"] = [None if entry is None else list(entry) for entry in self.precomputed]
        for number, entry in enumerate(self.precomputed):
            arrays |= {f"precomputed.{number}.{name}": np.asarray(array) for name, array in (entry or {}).items()}
        header["kernels"] = [list(vars(kernel).values()) for kernel in self.kernels]
        header["outside"] = [list(memory) for memory in self.outside]
        header["segments"] = [[*each[:4], *(list(map(list, ports)) for ports in each[4:])] for each in self.segments]
        return header, arrays

    @classmethod
    def from_data(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Plan:
        """Returns the plan that `to_data` gave, perhaps by way of JSON. Raises ExecutionError for another version."""
        if header.get("version") != PLAN_VERSION:
            raise ExecutionError(f"a plan of version {header.get('version')} cannot be used, only {PLAN_VERSION}")
        values: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
        values |= {name: tuple(v) if isinstance(v := header[name], list) else v for name in _PLAIN}
        for name in ("indexes", "uneven"):
            values[name] = tuple([arrays[f"{name}.{number}"] for number in range(header[f"num_{name}"])])
        values["precomputed"] = tuple(
            [
                None if names is None else {name: arrays[f"precomputed.{number}.{name}"] for name in names}
                for number, names in enumerate(header["precomputed"])
            ]
        )
        values["kernels"] = tuple([PlannedKernel(*kernel) for kernel in header["kernels"]])
        values["outside"] = tuple([OutsidePlan(*memory) for memory in header["outside"]])
        values["segments"] = tuple(
            [
                SegmentPlan(*each[:4], *(tuple([Port(*port) for port in ports]) for ports in each[4:]))
                for each in header["segments"]
            ]
        )
        return cls(**values)

    def __str__(self) -> str:
        """Returns a line for the whole plan, then a line for every call: command, opcode and operands."""
        lines = [f"# plan in {self.dtype}: {self.num_bytes} bytes, {self.num_calls} calls, {len(self.views)} views"]
        loops = {loop[0]: loop for loop in self.loops.tolist()}
        for call, command in enumerate(self.call_command.tolist()):
            if call in loops:
                lines.append(f"repeat {loops[call][2]} times the next {loops[call][1] - call} calls")
            args = self.call_args[self.call_start[call] : self.call_start[call + 1]].tolist()
            number = float(self.call_number[call])
            lines.append(
                f"c{command}: {self.opcodes[self.call_opcode[call]]} {args}" + (f" {number:g}" if number else "")
            )
        return "\n".join(lines)


_CALLS = ("opcodes", "texts", "call_opcode", "call_start", "call_number", "kernels", "lanes")
_ARRAYS = ("views", "call_opcode", "call_start", "call_args", "call_number", "call_command", "loops", "spans")
_PLAIN = ("dtype", "num_bytes", "lanes", "opcodes", "texts", "num_memos", "need_model_derivative")
