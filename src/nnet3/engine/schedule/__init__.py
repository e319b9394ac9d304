"""Scheduling of a dependency graph: epochs of nodes, levels of items.

`epochs` looks at the network only: nodes that can be finished before others begin come in earlier epochs.
`exact_levels` looks at the items (cindexes) of one computation: items of one level can be computed together.
Scheduling does not depend on the nodes' functions.
"""

from nnet3.engine.schedule.directed_graph import DirectedGraph, reached
from nnet3.engine.schedule.level import CycleError, exact_levels
from nnet3.engine.schedule.strong_components import epochs, strongly_connected_components
