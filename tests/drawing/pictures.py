"""Graphs for the tests of pictures."""

from __future__ import annotations

import random

from nnet3.base.drawing import Arc, Box, Graph


def small_graph() -> Graph:
    """Two inputs, a layer, a recurrence of two boxes, one onto itself, a bypass and an output."""
    boxes = [
        Box("input", ("input", "dim 40"), "input"),
        Box("ivector", ("ivector", "dim 100"), "input"),
        Box("affine", ("affine <1>", "Affine 220 → 64", "relu"), "trained", tooltip='a "quoted" & long one'),
        Box("cell", ("cell",), "memory"),
        Box("range", ("range",), "glue"),
        Box("self", ("self",), "function"),
        Box("output", ("output",), "output"),
    ]
    arcs = [
        Arc("input", "affine", "t-1, t, t+1"),
        Arc("ivector", "affine", "t=0"),
        Arc("affine", "cell"),
        Arc("cell", "range"),
        Arc("range", "cell", "t-3", is_delay=True),
        Arc("affine", "self"),
        Arc("self", "self", "t-1", is_delay=True),
        Arc("self", "cell", "t-2", is_delay=True),
        Arc("affine", "output", "scale 0.66"),
        Arc("range", "output"),
    ]
    return Graph(boxes, arcs, "a small graph")


def random_graph(seed: int, num_boxes: int = 25) -> Graph:
    """Arcs from earlier boxes to later ones, some delays back, some labels."""
    rng = random.Random(seed)
    boxes = [Box(str(k), ("x" * rng.randint(1, 12),) * rng.randint(1, 3)) for k in range(num_boxes)]
    arcs = []
    for k in range(1, num_boxes):
        for _ in range(rng.randint(0, 3)):
            arcs.append(Arc(str(rng.randrange(k)), str(k), rng.choice(["", "t+1", "a long label"])))
        if rng.random() < 0.2:
            arcs.append(Arc(str(k), str(rng.randrange(k + 1)), "t-1", is_delay=True))
    return Graph(boxes, arcs)
