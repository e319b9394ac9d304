"""From what depends on what to an order of work: epochs of nodes, phases of items, steps of rows.

`epochs` looks at the network only: nodes that can be finished before others begin come in earlier epochs.
`phases` looks at the items (cindexes) of one computation: what needs nothing unfinished goes together.
`make_steps` cuts phases into matrices of one node each. Nothing here knows what the nodes compute.
"""

from nnet3.schedule.directed_graph import DirectedGraph, gather_rows
from nnet3.schedule.epoch import epochs
from nnet3.schedule.phase import CycleError, phases
from nnet3.schedule.steps import NO_ITEM, InputsOf, Step, StepKind, locate_items, make_steps
from nnet3.schedule.strong_components import strongly_connected_components

__all__ = [
    "NO_ITEM",
    "CycleError",
    "DirectedGraph",
    "InputsOf",
    "Step",
    "StepKind",
    "epochs",
    "gather_rows",
    "locate_items",
    "make_steps",
    "phases",
    "strongly_connected_components",
]
