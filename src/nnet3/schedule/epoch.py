"""Epochs: groups of nodes that are finished one group after the other.

In a feedforward network each layer is an epoch of its own: all of it is computed before anything that
depends on it. The nodes of a recurrence need each other, at other times, and can only take turns; together
they make one epoch. Without epochs a feedforward layer on top of a recurrent one would be computed in as many
pieces as there are time steps, because each piece could begin as soon as the recurrence has passed it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.schedule.directed_graph import DirectedGraph
from nnet3.schedule.strong_components import strongly_connected_components


def epochs(graph: DirectedGraph) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Returns the epoch of each node, (num_nodes,), and whether each epoch is recurrent, (num_epochs,).

    An arc leads from a node to one that ever refers to it. An epoch is a strongly connected component, numbered
    in topological order; it is recurrent if it has several nodes or one that refers to itself.
    """
    epoch_of_node, num_epochs = strongly_connected_components(graph)
    is_recurrent = np.bincount(epoch_of_node, minlength=num_epochs) > 1
    refers_to_itself = graph.sources[graph.sources == graph.successors]
    is_recurrent[epoch_of_node[refers_to_itself]] = True
    return epoch_of_node, is_recurrent
