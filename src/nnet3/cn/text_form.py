"""The readable text form of a network's graph, and reading it back.

    # computational network 1
    x = input(rows=39)
    W = parameter(rows=128, cols=39)
    times1 = times(W, x)
    d = delay(h, rows=128, lag=1, default=0.0)
    criterion J * 1.0
    output posterior = softmax1
    output 'scores of words' = plus1

A line for each node: name, type, operands in order, options. Operands stand above, except that a delay
may name a later node. Numbers of parameters are left out (see `nnet3.cn.saving`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from nnet3.base.text import did_you_mean
from nnet3.cn.network import Network
from nnet3.cn.node import Node
from nnet3.cn.node_text import node_line
from nnet3.cn.nodes.delay import Delay, DelayNode
from nnet3.cn.operation import Operation
from nnet3.cn.operation_types import OPERATIONS, check_is_registered, is_stored, make_node
from nnet3.cn.options import checked_option
from nnet3.errors import ModelFormatError, NetworkError, Nnet3Error, check_kind, is_out_of_memory

HEADER = "# computational network 1"
_NODE = re.compile(r"([A-Za-z_][\w.\-]*) = (\w+)\((.*)\)\Z")
_CRITERION = re.compile(r"criterion ([\w.\-]+) \* (\S+)\Z")
_OUTPUT = re.compile(r"output (\S.*) = ([\w.\-]+)\Z")
_PLAIN = re.compile(r"[\w.\-]+\Z")
_OPTION = re.compile(r"(\w+)=(.*)\Z", re.DOTALL)


def to_text(network: Network) -> str:
    """Returns the graph, criteria and outputs as text for `from_text`.

    Raises NetworkError for operations that are not registered.
    """
    check_kind(network, Network, "what is shown as text", "a network")
    for node in network.nodes:
        check_is_registered(node.operation)
    names = network.names
    lines = [HEADER, *(node_line(node, names) for node in _in_writing_order(network.nodes))]
    lines += [f"criterion {names[node]} * {weight!r}" for node, weight in network.criteria.items()]
    for name, node in network.outputs.items():
        lines.append(f"output {name if _PLAIN.match(name) else repr(name)} = {names[node]}")
    return "\n".join(lines) + "\n"


def _in_writing_order(nodes: Iterable[Node]) -> list[Node]:
    """Leaves first; forward order already puts operands above, except those of delays."""
    nodes = list(nodes)
    return [node for node in nodes if not node.operands] + [node for node in nodes if node.operands]


def from_text(text: str, source: str = "", *, max_numbers: int = 2**31) -> Network:
    """Returns the network of a text form; parameters are zero, and have at most `max_numbers` elements together.

    Raises ModelFormatError, which names the line.
    """
    check_kind(text, str, "the text of a network", "a str")
    return _Reader(source, max_numbers).read(text)


class _Reader:
    def __init__(self, source: str, max_numbers: int):
        self.source, self.numbers_left = source, max_numbers
        self.nodes: dict[str, Node] = {}
        self.later: list[tuple[str, DelayNode, list[str]]] = []
        self.criteria: dict[Node, float] = {}
        self.outputs: dict[str, Node] = {}
        self.place = ""

    def read(self, text: str) -> Network:
        for number, line in enumerate(text.splitlines(), 1):
            self.place = f"line {number}"
            if number == 1 and line.strip() != HEADER:
                raise self._error(f"expected '{HEADER}', got {line[:60]!r}")
            if line.strip() and not line.lstrip().startswith("#"):
                self._line(line.strip())
        for place, delay, operands in self.later:
            self.place = place
            found = [self._find(name) for name in operands]
            self._guarded(lambda delay=delay, found=found: _connect(delay, found))
        self.place = "end of text"
        return self._guarded(lambda: Network(self.criteria or None, self.outputs or None))

    def _line(self, line: str) -> None:
        if match := _CRITERION.match(line):
            weight = self._literal(match[2])
            if not isinstance(weight, float):
                raise self._error(f"expected a number as the weight of a criterion, got {match[2]}")
            self.criteria[self._find(match[1])] = weight
        elif match := _OUTPUT.match(line):
            name = match[1] if _PLAIN.match(match[1]) else self._literal(match[1])
            if not isinstance(name, str) or name in self.outputs:
                raise self._error(f"expected another name for each output, got {match[1][:80]}")
            self.outputs[name] = self._find(match[2])
        elif match := _NODE.match(line):
            self._node(match[1], match[2], _split(match[3]))
        else:
            raise self._error(f"expected NAME = TYPE(...), criterion or output, got {line[:80]!r}")

    def _node(self, name: str, type: str, arguments: list[str]) -> None:
        if name in self.nodes:
            raise self._error(f"two nodes are called '{name}'")
        if type not in OPERATIONS:
            hint = did_you_mean(type, OPERATIONS)
            own = "operations of your own are registered before (cn.register)"
            raise self._error(f"there is no node type '{type}'; {hint + '; ' if hint else ''}{own}")
        options: dict[str, Any] = {}
        for match in filter(None, map(_OPTION.match, arguments)):
            if match[1] in options:
                raise self._error(f"{type}: {match[1]} is given twice")
            options[match[1]] = self._literal(match[2])
        operands = [argument for argument in arguments if not _OPTION.match(argument)]
        operation = self._operation(type, options)
        if isinstance(operation, Delay):
            self.nodes[name] = delay = make_node(operation, (), name)
            self.later.append((self.place, cast(DelayNode, delay), operands))
            return
        found = [self._find(operand) for operand in operands]
        if is_stored(operation):
            shape = self._guarded(lambda: operation.infer([operand.shape for operand in found]))
            self.numbers_left -= shape.rows * (shape.num_cols or 1)
            if self.numbers_left < 0:
                raise self._error(f"{shape.rows} x {shape.cols} numbers are more than there can be")
        self.nodes[name] = self._guarded(lambda: make_node(operation, found, name))

    def _operation(self, type: str, options: Mapping[str, Any]) -> Operation:
        """Returns the operation, if it has the given options, with values of the right kinds."""
        made = OPERATIONS[type]
        kinds = made.option_kinds()
        for name in options:
            if name not in kinds:
                raise self._error(f"{type}: there is no option {name}; options are: {', '.join(kinds) or 'none'}")
        return self._guarded(
            lambda: made.from_options(
                **{name: checked_option(value, kinds[name], f"{type}: {name}") for name, value in options.items()}
            )
        )

    def _find(self, name: str) -> Node:
        if name not in self.nodes:
            hint = did_you_mean(name, self.nodes)
            raise self._error(f"there is no node '{name}' above" + (f"; {hint}" if hint else ""))
        return self.nodes[name]

    def _literal(self, text: str) -> Any:
        try:
            return ast.literal_eval(text)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise self._error(f"expected a number, a text or a tuple, got {text[:40]!r}") from None

    def _guarded(self, make: Any) -> Any:
        try:
            return make()
        except Nnet3Error as error:
            raise self._error(str(error).split("\n")[0]) from None
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise self._error("a value of this size does not fit into memory") from None

    def _error(self, message: str) -> ModelFormatError:
        return ModelFormatError(message, self.source, self.place)


def _connect(delay: DelayNode, operands: list[Node]) -> None:
    if len(operands) not in (1, 2):
        raise NetworkError(f"delay has 1 or 2 operands, got {len(operands)}")
    delay.initial = operands[1] if len(operands) == 2 else None
    delay.connect(operands[0])


def _split(text: str) -> list[str]:
    """Arguments at commas outside parentheses and quotes."""
    parts, depth, quote, start, escaped = [], 0, "", 0, False
    for place, letter in enumerate(text):
        if escaped:
            escaped = False
        elif quote:
            quote, escaped = "" if letter == quote else quote, letter == "\\"
        elif letter in "'\"":
            quote = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]
