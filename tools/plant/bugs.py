"""The bugs that are planted: those of `tools.mutation`, and those that people make when they write a pass.

a; b                          b; a
MatrixCopy(dest, source)      MatrixAdd(dest, source)
part.first                    part.end
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from hashlib import sha256

from tools.mutation.mutant import Mutant
from tools.mutation.operators import Finder

_PAIRS = (
    ("MatrixCopy", "MatrixAdd"), ("CopyRows", "AddRows"), ("first", "end"), ("start", "stop"),
    ("row_offset", "col_offset"), ("num_rows", "num_cols"), ("input_derivs", "added_derivs"),
)  # fmt: skip
_OTHER = {**dict(_PAIRS), **{other: one for one, other in _PAIRS}}


class _BugFinder(Finder):
    """Finds what `Finder` finds, statements that can change places, and names that have a twin."""

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in _OTHER and self._knows(_OTHER[name]):
                self.add(node, "twin", _OTHER[name])
            case ast.Attribute(value=value, attr=name, ctx=ast.Load()) if name in _OTHER:
                self.add(node, "twin", f"{ast.unparse(value)}.{_OTHER[name]}")
        for field in ("body", "orelse"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                for one, other in itertools.pairwise(statements):
                    self._swap(one, other)
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """The body alone: defaults are evaluated once, when a module is imported."""
        before = len(self.found)
        super().visit_FunctionDef(node)
        inside = [mutant for mutant in self.found[before:] if mutant.line >= node.body[0].lineno]
        self.found[before:] = inside

    def _knows(self, name: str) -> bool:
        """Tells whether the file has imported a class of this name, or the function has a variable of it."""
        first, last = (1, len(self.text)) if name[0].isupper() else self.scope
        return re.search(rf"\b(?<!\.){name}\b(?!=)", "\n".join(self.text.splitlines()[first - 1 : last])) is not None

    def _swap(self, one: ast.stmt, other: ast.stmt) -> None:
        last = ast.Return, ast.Raise, ast.Continue, ast.Break, ast.FunctionDef, ast.ClassDef, ast.ImportFrom, ast.Import
        if isinstance(one, last) or isinstance(other, last) or _is_text(one):
            return
        both = ast.Pass(**{name: getattr(one, name) for name in ("lineno", "col_offset")})
        both.end_lineno, both.end_col_offset = other.end_lineno, other.end_col_offset
        texts = [self._text(statement) for statement in (one, other)]
        indent = "\n" + " " * one.col_offset
        self.add(both, "swapped statements", texts[1] + indent + texts[0])

    def _text(self, node: ast.stmt) -> str:
        ends = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
        start, end = (self._offset(*each) for each in ends)  # as `ast.get_source_segment`, which splits all of the text
        return self.text[start:end]


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def bugs_of(path: str, text: str, count: int, seed: int) -> list[Mutant]:
    """Returns `count` bugs of a file, of as many kinds as there are: inside functions, and such that it compiles."""
    finder = _BugFinder(path, text)
    finder.visit(ast.parse(text))
    lines = text.splitlines()
    inside = [bug for bug in finder.found if lines[bug.scope[0] - 1].lstrip().startswith("def ")]
    drawn = sorted(inside, key=lambda bug: sha256(f"{seed} {bug.start} {bug.replacement} {bug.kind}".encode()).digest())
    places, of_kind = dict[Mutant, int](), Counter[str]()
    for bug in drawn:
        places[bug] = of_kind[bug.kind]
        of_kind[bug.kind] += 1
    chosen = list[Mutant]()
    for bug in sorted(drawn, key=lambda bug: places[bug]):
        if len(chosen) < count and bug.compiles:
            chosen.append(bug)
    return chosen
