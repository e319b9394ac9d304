"""Strongly connected components: the largest sets of mutually reachable nodes. They are the epochs of a network.

In a feedforward network each layer is a separate epoch: a layer is computed completely before its users.
The nodes of a recurrence need each other, at other times, and can only take turns; together they make one epoch.
Without epochs a feedforward layer on top of a recurrent one would be computed in as many pieces as the recurrence has
time steps, because a piece could begin right after the recurrence's step.
"""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from nnet3.engine.schedule.directed_graph import DirectedGraph


def epochs(graph: DirectedGraph) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Returns the epoch of each node, (num_nodes,), and a mask of the recurrent epochs, (num_epochs,).

    An arc leads from a node to every node that ever refers to it. An epoch is a strongly connected component, numbered
    in topological order; an epoch with several nodes, or with a node that refers to itself, is recurrent.
    """
    epoch_of_node, num_epochs = strongly_connected_components(graph)
    is_recurrent = np.bincount(epoch_of_node, minlength=num_epochs) > 1
    refers_to_itself = graph.sources[graph.sources == graph.successors]
    is_recurrent[epoch_of_node[refers_to_itself]] = True
    return epoch_of_node, is_recurrent


def strongly_connected_components(graph: DirectedGraph) -> tuple[npt.NDArray[np.int32], int]:
    """Returns the component of each node, (num_nodes,), and the number of components.

    Components are numbered in topological order: where an arc leads from A to B in another component,
    component(A) < component(B). Of the components that could come next, the component with the
    lowest node number comes, so that a graph whose arcs all lead upwards keeps its order.
    """
    label, num_components = _tarjan(graph)
    if num_components == 0:
        return label, 0
    rank_of_label = _topological_ranks(graph, label, num_components)
    return rank_of_label[label], num_components


def _tarjan(graph: DirectedGraph) -> tuple[npt.NDArray[np.int32], int]:
    """Label the components in the order in which a depth-first search completes them (Tarjan, 1972).

    `low[v]` is the earliest node known to be reachable from v and still without a component; v is the
    first node of a component if `low[v]` is v. The search keeps an explicit stack of (node, next arc), because
    a long chain of nodes would exceed Python's recursion limit.
    """
    indptr, successors = graph.indptr.tolist(), graph.successors.tolist()
    num_nodes = graph.num_nodes
    visit = [-1] * num_nodes  # when the search first came to each node
    low = [0] * num_nodes
    label = [-1] * num_nodes
    next_arc = indptr[:num_nodes]
    waiting: list[int] = []  # visited nodes that have no component yet
    num_visited = num_components = 0
    for root in range(num_nodes):
        if visit[root] >= 0:
            continue
        path = [root]
        while path:
            node = path[-1]
            if visit[node] < 0:
                visit[node] = low[node] = num_visited
                num_visited += 1
                waiting.append(node)
            if next_arc[node] < indptr[node + 1]:
                target = successors[next_arc[node]]
                next_arc[node] += 1
                if visit[target] < 0:
                    path.append(target)
                elif label[target] < 0:
                    low[node] = min(low[node], visit[target])
                continue
            path.pop()
            if path:
                low[path[-1]] = min(low[path[-1]], low[node])
            if low[node] == visit[node]:
                while label[node] < 0:
                    label[waiting.pop()] = num_components
                num_components += 1
    return np.array(label, dtype=np.int32), num_components


def _topological_ranks(graph: DirectedGraph, label: npt.NDArray[np.int32], num_labels: int) -> npt.NDArray[np.int32]:
    """Returns the place of each component in the topological order, by node numbers where possible (Kahn)."""
    first_node = np.zeros(num_labels, dtype=np.int64)
    first_node[label[::-1]] = np.arange(graph.num_nodes)[::-1]
    sources, targets = label[graph.sources], label[graph.successors]
    between = sources != targets
    condensed = DirectedGraph.from_edges(num_labels, sources[between], targets[between])
    missing = np.bincount(condensed.successors, minlength=num_labels).tolist()
    indptr, successors, first = condensed.indptr.tolist(), condensed.successors.tolist(), first_node.tolist()
    ready = [(first[component], component) for component in range(num_labels) if missing[component] == 0]
    heapq.heapify(ready)
    rank = np.zeros(num_labels, dtype=np.int32)
    for number in range(num_labels):
        _, component = heapq.heappop(ready)
        rank[component] = number
        for target in successors[indptr[component] : indptr[component + 1]]:
            missing[target] -= 1
            if missing[target] == 0:
                heapq.heappush(ready, (first[target], target))
    return rank
