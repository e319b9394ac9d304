"""All operations by type, users' operations too, and the making of their nodes."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Sequence
from typing import TypeVar

from nnet3.cn import nodes
from nnet3.cn.node import Node, names_begin_with
from nnet3.cn.nodes import delay, functions, leaves, statistics
from nnet3.cn.operation import Operation
from nnet3.cn.options import is_kind
from nnet3.errors import NetworkError, check_kind

_TYPE = re.compile(r"[A-Za-z_]\w*\Z")
_NODE_CLASSES: dict[str, type[Node]] = {
    "parameter": leaves.ParameterNode,
    "mean": statistics.StatisticNode,
    "inv_std_dev": statistics.StatisticNode,
    "delay": delay.DelayNode,
}
Made = TypeVar("Made", bound=type[Operation])


def register(operation: Made) -> Made:
    """Lets networks with this operation be saved and loaded; also a decorator.

    The class is a dataclass whose fields are options: int, float, bool, str, tuples of int, or one of these or None.
    Raises NetworkError for any other class, and for a `type` that is no name or belongs to another class; a class
    made anew takes the place of its old version.
    """
    check_kind(operation, type, "what is registered", "a class derived from cn.Operation")
    name, made = operation.__name__, getattr(operation, "type", "")
    if not issubclass(operation, Operation) or "__dataclass_fields__" not in vars(operation):
        raise NetworkError(f"{name}: expected a class derived from cn.Operation with @dataclass(frozen=True)")
    if not isinstance(made, str) or not _TYPE.match(made):
        raise NetworkError(f"{name}: expected a name of letters, digits and '_' as its type, got {made!r}")
    if not is_same_class(OPERATIONS.get(made, operation), operation):
        raise NetworkError(f"{name}: its type '{made}' is that of {OPERATIONS[made].__name__}: give it another")
    for field, kind in operation.option_kinds().items():
        if not is_kind(kind):
            raise NetworkError(
                f"{name}: field {field} is {kind}, and cannot be written: options are int, float, bool, "
                "str, tuples of int, or one of these or None"
            )
    OPERATIONS[made] = operation
    return operation


def is_registered(operation: Operation) -> bool:
    """Tells whether an operation could be read again."""
    registered = OPERATIONS.get(operation.type)
    return registered is not None and is_same_class(registered, type(operation))


def check_is_registered(operation: Operation) -> None:
    """Raises NetworkError for an operation that could not be read again."""
    if is_registered(operation):
        return
    if not all(map(is_kind, operation.option_kinds().values())):
        raise NetworkError(
            f"'{operation.type}' cannot be read again: a function is not written to a file; what is saved is made of a "
            "class of your own, decorated with cn.register"
        )
    name = type(operation).__name__
    raise NetworkError(f"'{operation.type}' cannot be read again: decorate its class {name} with cn.register")


def is_same_class(one: type, other: type) -> bool:
    """Tells whether two classes are one, or one class made twice as in a notebook."""
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


OPERATIONS: dict[str, type[Operation]] = {}
for _found in pkgutil.iter_modules(nodes.__path__):
    _module = importlib.import_module(f"{nodes.__name__}.{_found.name}")
    for _made in (*vars(_module).values(), *functions.FUNCTIONS.values()):
        is_own = isinstance(_made, type) and _made.__module__ == _module.__name__
        if not (is_own and issubclass(_made, Operation) and "type" in vars(_made)):  # others are bases
            continue
        if all(map(is_kind, _made.option_kinds().values())):  # all but functions of PyTorch can be written
            register(_made)


def is_stored(operation: Operation) -> bool:
    """Tells whether nodes of this operation keep value and memory."""
    return _NODE_CLASSES.get(operation.type, Node).is_stored


def make_node(operation: Operation, operands: Sequence[Node], name: str) -> Node:
    """Returns a node of the operation's node class, of just this name."""
    with names_begin_with(""):
        return _NODE_CLASSES.get(operation.type, Node)(operation, operands, name)
