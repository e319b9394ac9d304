"""Makes a program of matrix commands of a graph of nodes and a request, whoever the front-end is.

`lower` is `build_graph`, `schedule` and `generate` in a row; each of their results can be printed. The example of this
page, h(t) = W (x(t) + h(t-1)) + b at t = 0..3, comes back in many files:

>>> from tests.lowering.examples import LOOP, loop
>>> print(LOOP.strip())
input-node name=x dim=3
component name=affine type=AffineComponent input-dim=3 output-dim=3
component-node name=h component=affine input=Sum(x, IfDefined(Offset(h, -1)))
output-node name=output input=h
>>> each = loop(backward=False)
>>> graph = build_graph(each.source, each.request)
>>> print(graph)
16 cindexes, 15 dependencies, 4 provided
0..3: x [ (0, 0:3) ] provided
4..7: h_input [ (0, 0:3) ] uses x, h
8..11: h [ (0, 0:3) ] uses h_input
12..15: output [ (0, 0:3) ] uses h
>>> steps = schedule(each.source, graph)
>>> print(steps)
9 steps in 2 epochs, 1 of them recurrent
step 0: h_input [ (0, 0) ] gathered
step 1: h [ (0, 0) ] kernel from h_input
step 2: h_input [ (0, 1) ] gathered
step 3: h [ (0, 1) ] kernel from h_input
step 4: h_input [ (0, 2) ] gathered
step 5: h [ (0, 2) ] kernel from h_input
step 6: h_input [ (0, 3) ] gathered
step 7: h [ (0, 3) ] kernel from h_input
step 8: output [ (0, 0:3) ] gathered
>>> print(generate(each.source, each.request, steps))
# 3 matrices, 18 commands, 1 segment
m1(4, 3) == value: x [ (0, 0:3) ]
m2(1, 3) == value: h_input [ (0, -) ]
m3(4, 3) == value: h [ (0, 0:3) ]
c0: m1 = undefined(4, 3)
c1: m2 = undefined(1, 3)
c2: m3 = undefined(4, 3)
c3: m1 = user input [for node: 'x']
c4: m2 = m1(0, :)
c5: affine.Propagate(m2, &m3(0, :)) [node h]
c6: m2 = m1(1, :)
c7: m2 += m3(0, :)
c8: affine.Propagate(m2, &m3(1, :)) [node h]
c9: m2 = m1(2, :)
c10: m2 += m3(1, :)
c11: affine.Propagate(m2, &m3(2, :)) [node h]
c12: m2 = m1(3, :)
c13: m2 += m3(2, :)
c14: affine.Propagate(m2, &m3(3, :)) [node h]
c15: output m3 to user [for node: 'output']
c16: m1 = []
c17: m2 = []
"""

from __future__ import annotations

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import many_objects
from nnet3.engine.lowering.build_graph import build_graph
from nnet3.engine.lowering.generate import generate
from nnet3.engine.lowering.scheduler import schedule
from nnet3.engine.lowering.source import GraphSource, LoweringRequest
from nnet3.engine.lowering.sweeps import Sweeps


@many_objects()
def lower(source: GraphSource, request: LoweringRequest, sweeps: Sweeps | None = None) -> NnetComputation:
    """Returns the program that computes what the request asks for, not yet optimized.

    `sweeps`: the finished sweeps for the request, if somebody has made them.
    Raises RequestError for a request that cannot be, NotComputableError for outputs out of reach.
    """
    graph = build_graph(source, request, sweeps)
    return generate(source, request, schedule(source, graph))
