"""Draw the figures of docs/computational_networks.md: python -m tools.computational_network_figures [folder]."""

from __future__ import annotations

import sys
from pathlib import Path

from nnet3 import cn
from nnet3.base.drawing import Arc, Box, Graph, to_svg

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"


def drawn(net: cn.Network, title: str, highlight: tuple[str, ...] = ()) -> str:
    """The picture by the Graphviz of pygraphviz, whatever else is installed."""
    return to_svg(net.draw(title=title, highlight=highlight).graph, use_graphviz=False)


def layer(W: cn.Node, B: cn.Node, x: cn.Node, number: int) -> cn.Node:
    """P = W x + B with the chapter's names."""
    return cn.plus(cn.times(W, x, name=f"T{number}"), B, name=f"P{number}")


def parameters(number: int, rows: int, cols: int) -> tuple[cn.Node, cn.Node]:
    return cn.parameter(f"W{number}", (rows, cols)), cn.parameter(f"B{number}", (rows, 1))


def figure_1_1() -> str:
    S1 = cn.sigmoid(layer(*parameters(1, 3, 4), cn.input("X", 4), 1), name="S1")
    net = cn.Network(outputs=cn.softmax(layer(*parameters(2, 2, 3), S1, 2), name="O"))
    return drawn(net, "1.1: one hidden layer")


def figure_1_2() -> str:
    S1 = cn.sigmoid(layer(*parameters(1, 3, 4), cn.input("X1", 4), 1), name="S1")
    both = cn.plus(cn.times(parameters(2, 2, 3)[0], S1, name="T2"), cn.parameter("W3", (2, 5)) @ cn.input("X2", 5))
    net = cn.Network(outputs=cn.softmax(cn.plus(both, cn.parameter("B2", (2, 1)), name="P2"), name="O"))
    return drawn(net, "1.2: two inputs", ("X1", "X2"))


def figure_1_3() -> str:
    W, B = parameters(1, 3, 3)
    S1 = cn.sigmoid(layer(W, B, cn.input("X", 3), 1), name="S1")
    net = cn.Network(outputs=cn.softmax(layer(W, B, S1, 2), name="O"))
    return drawn(net, "1.3: shared parameters", ("W1", "B1"))


def figure_1_4() -> str:
    S1 = cn.sigmoid(layer(*parameters(1, 3, 4), cn.input("X", 4), 1), name="S1")
    O = cn.softmax(layer(*parameters(2, 2, 3), S1, 2), name="O")
    return drawn(cn.Network(cn.cross_entropy(cn.input("L", 2), O, name="J")), "1.4: with a criterion")


_DERIVATIVES = (("J", "V1"), ("V1", "V2"), ("V2", "W1"), ("V2", "W2"), ("J", "V3"), ("V3", "V4"), ("V4", "W1"))


def figure_1_5() -> str:
    boxes = [Box(name, (name,), _kind(name)) for name in ("J", "V1", "V3", "V2", "V4", "W2", "W1")]
    arcs = [Arc(above, below, f"d{above} / d{below}") for above, below in _DERIVATIVES]
    return to_svg(Graph(boxes, arcs, "1.5: a derivative on each arc"), use_graphviz=False)


def figure_1_6() -> str:
    boxes = [Box(n, (n, f"dJ / d{n}"), _kind(n)) for n in ("J", "V1", "V3", "V2", "V4", "W2", "W1")]
    arcs = [Arc(above, below) for above, below in _DERIVATIVES]
    return to_svg(Graph(boxes, arcs, "1.6: a gradient at each node"), use_graphviz=False)


def _kind(name: str) -> str:
    return "output" if name == "J" else "trained" if name.startswith("W") else "function"


def figure_1_9() -> str:
    """Four sequences; what is in one column is computed at once."""
    kinds = ("input", "trained", "function", "memory")
    lengths = (6, 5, 6, 4)
    boxes = [
        Box(f"{n},{t}", (f"sequence {n}", f"frame {t}"), kinds[n], rank=n, column=t)
        for n, length in enumerate(lengths)
        for t in range(length)
    ]
    arcs = [Arc(f"{n},{t - 1}", f"{n},{t}") for n, length in enumerate(lengths) for t in range(1, length)]
    return to_svg(Graph(boxes, arcs, "1.9: frame by frame across sequences"), use_graphviz=False)


ALL = {
    "cn_1_1": figure_1_1,
    "cn_1_2": figure_1_2,
    "cn_1_3": figure_1_3,
    "cn_1_4": figure_1_4,
    "cn_1_5": figure_1_5,
    "cn_1_6": figure_1_6,
    "cn_1_9": figure_1_9,
}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in ALL.items():
        (folder / f"{name}.svg").write_text(draw())


if __name__ == "__main__":
    main()
