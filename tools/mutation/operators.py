"""Which small bugs are put in: for each node of the syntax tree, what may stand there instead.

Left alone: annotations, docstrings, assertions, messages of exceptions, what only type checkers read, arguments of
decorators such as `dataclass`, and `strict` of zip, which is an assertion.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from tools.mutation.mutant import Mutant

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.MatMult: ast.Mult,
}  # fmt: skip
_TWINS = {"min": "max", "any": "all", "minimum": "maximum", "floor": "ceil", "argmin": "argmax", "add_": "sub_"}
_OPPOSITE = {**_TWINS, **{b: a for a, b in _TWINS.items()}, "zeros": "ones", "copy_": "add_", "extend": "append"}


def mutants_of(path: str, text: str) -> list[Mutant]:
    """All mutants of a file, in the order of its text; a few are no Python (see `Mutant.compiles`)."""
    finder = Finder(path, text)
    finder.visit(ast.parse(text))
    return sorted(finder.found, key=lambda mutant: (mutant.start, mutant.end, mutant.replacement))


class Finder(ast.NodeVisitor):
    """Collects the mutants of a file in `found`."""

    def __init__(self, path: str, text: str):
        self.path, self.text = path, text
        self.found: list[Mutant] = []
        lengths = [len(line) for line in text.splitlines(keepends=True)]
        self._line_starts = [sum(lengths[:k]) for k in range(len(lengths) + 1)]
        self._lines = text.splitlines()
        self.scope = (1, len(lengths))

    # ---- what is mutated ----

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.expr):
            for kind, changed in _changes(node):
                self.add(node, kind, f"({ast.unparse(changed)})")
        elif isinstance(node, ast.stmt):
            for kind, replacement in _statement_changes(node):
                self.add(node, kind, replacement)
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Defaults, then the body without its docstring; no annotations, no decorators."""
        outer, self.scope = self.scope, (node.lineno, node.end_lineno or node.lineno)
        defaults = [default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None]
        for each in (*defaults, *_without_docstring(node.body)):
            self.visit(each)
        self.scope = outer

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outer, self.scope = self.scope, (node.lineno, node.end_lineno or node.lineno)
        for each in _without_docstring(node.body):
            self.visit(each)
        self.scope = outer

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and ast.unparse(node.annotation) != "TypeAlias":
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":
            self.visit(node.value)

    def visit_Slice(self, node: ast.Slice) -> None:
        """`[:1]` is an idiom for the first, if there is one: it becomes `[:0]`, but not `[:2]`."""
        if node.lower is None and isinstance(node.upper, ast.Constant) and node.upper.value == 1:
            return
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """-1 is a mark more often than a number: it becomes 1, but not 0 or -2."""
        is_mark = isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and node.operand.value == 1
        if not is_mark:
            self.visit(node.operand)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.slice, ast.Slice):
            self._slice(node.slice)
        elif isinstance(node.slice, ast.Tuple):
            for each in node.slice.elts:
                if isinstance(each, ast.Slice):
                    self._slice(each)
        self.generic_visit(node)

    def _skip(self, node: ast.AST) -> None:
        pass

    visit_Assert = visit_Raise = visit_JoinedStr = visit_Import = visit_ImportFrom = visit_Global = _skip

    def _slice(self, node: ast.Slice) -> None:
        if node.lower is None and node.upper is None:
            return
        if isinstance(node.upper, ast.Constant) and node.upper.value == 0:
            return  # nothing, wherever it begins
        for bound in ("lower", "upper"):
            old = getattr(node, bound)
            for amount in (1, -1):
                if old is None and (amount, bound) not in ((1, "lower"), (-1, "upper")):
                    continue
                changed = copy.deepcopy(node)
                number = ast.Constant(amount) if old is None else ast.BinOp(old, ast.Add(), ast.Constant(amount))
                setattr(changed, bound, number)
                self.add(node, "slice", ast.unparse(changed))

    # ---- where it is ----

    def _offset(self, line: int, column: int) -> int:
        """Of a place that `ast` gives: columns are bytes of UTF-8."""
        before = self._lines[line - 1].encode()[:column].decode()
        return self._line_starts[line - 1] + len(before)

    def add(self, node: ast.expr | ast.stmt | ast.Slice, kind: str, replacement: str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)
        self.found.append(
            Mutant(self.path, self.text, start, end, replacement, kind, node.lineno, node.end_lineno, self.scope)
        )


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if is_docstring else body


def _changes(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """What may stand in place of an expression, with the kind of bug that it is."""
    match node:
        case ast.Constant(value=bool() as value):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", ast.Constant(value + 1)
            if value not in (0, -1):
                yield "constant", ast.Constant(value - 1 if isinstance(value, int) else 0.0)
        case ast.Compare(ops=ops):
            for place, operator in enumerate(ops):
                yield "comparison", _changed(node, "ops", place, _COMPARISONS[type(operator)]())
        case ast.BinOp(op=operator):
            yield "arithmetic", _with(node, op=_ARITHMETIC[type(operator)]())
            if isinstance(operator, (ast.Add, ast.BitOr, ast.Mult)):
                yield "operand left out", node.left
        case ast.BoolOp(op=operator, values=values):
            yield "boolean", _with(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
            for place in range(len(values)):
                yield "condition left out", _with(node, values=values[:place] + values[place + 1 :])
        case ast.UnaryOp(operand=operand):
            yield "sign or negation left out", operand
        case ast.IfExp(body=body, orelse=orelse):
            yield "choice", body
            yield "choice", orelse
        case ast.Call():
            yield from _call_changes(node)


def _call_changes(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    arguments = node.args
    if len(arguments) >= 2 and not any(isinstance(each, ast.Starred) for each in arguments[:2]):
        yield "swapped arguments", _with(node, args=[arguments[1], arguments[0], *arguments[2:]])
    for place, keyword in enumerate(node.keywords):
        if keyword.arg not in (None, "strict"):
            yield "argument left out", _with(node, keywords=node.keywords[:place] + node.keywords[place + 1 :])
    match node.func:
        case ast.Name(id=name) if name in _OPPOSITE:
            yield "other function", _with(node, func=ast.Name(_OPPOSITE[name]))
        case ast.Attribute(value=value, attr=name) if name in _OPPOSITE:
            yield "other function", _with(node, func=ast.Attribute(value, _OPPOSITE[name]))
        case ast.Name(id="sorted" | "reversed" | "abs" | "set" | "tuple" | "list") if len(arguments) == 1:
            yield "call left out", arguments[0]
        case ast.Attribute(value=value, attr="copy" | "clone" | "contiguous" | "detach" | "sort" | "abs") if (
            not arguments
        ):
            yield "call left out", value


def _statement_changes(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """What may stand in place of a statement."""
    match node:
        case ast.Expr(value=ast.Call()):
            yield "statement left out", "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement left out", "pass"
        case ast.AugAssign(target=target, op=operator, value=value):
            yield "statement left out", "pass"
            yield "arithmetic", ast.unparse(ast.AugAssign(target, _ARITHMETIC[type(operator)](), value))
            yield "update becomes assignment", f"{ast.unparse(target)} = {ast.unparse(value)}"
        case ast.If(test=test, body=body, orelse=[]):
            if ast.unparse(test) != "TYPE_CHECKING" and isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue)):
                yield "guard left out", "pass"
        case ast.Continue():
            yield "loop ends early", "break"
        case ast.Break():
            yield "loop goes on", "continue"


def _with(node: ast.expr, **fields: object) -> ast.expr:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _changed(node: ast.expr, field: str, place: int, value: object) -> ast.expr:
    values = [*getattr(node, field)]
    values[place] = value
    return _with(node, **{field: values})
