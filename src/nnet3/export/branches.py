"""Branches: one of several programs, chosen when the file runs, by nested Ifs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from nnet3.export.graph import GraphBuilder


@dataclass(frozen=True)
class ProgramBranch:
    """A program: `make` returns its results. `holds` returns the condition, a scalar, for taking the branch."""

    holds: Callable[[GraphBuilder], ir.Value]
    make: Callable[[GraphBuilder], Sequence[ir.Value]]


def one_of(graph: GraphBuilder, branches: Sequence[ProgramBranch], given: Sequence[ir.Value]) -> list[ir.Value]:
    """Returns the results of the first branch with a true condition, of the last branch if no condition is true.

    Branches read the tensors `given` from outside; all nodes that depend on `given` are inside.
    """
    branch, *others = branches
    if not others:
        return list(branch.make(graph))
    then, otherwise = (
        _subgraph(graph, given, make) for make in (branch.make, lambda inner: one_of(inner, others, given))
    )
    condition = branch.holds(graph)
    return graph.several("If", [condition], {"then_branch": then, "else_branch": otherwise}, len(then.outputs))


def _subgraph(
    graph: GraphBuilder, given: Sequence[ir.Value], make: Callable[[GraphBuilder], Sequence[ir.Value]]
) -> ir.Graph:
    assert graph.batch is not None
    inner = GraphBuilder(graph, [*given, graph.batch])
    results = [inner.result(value) for value in make(inner)]
    return ir.Graph([], results, nodes=inner.tape.nodes, name=graph.new_name("branch"))
