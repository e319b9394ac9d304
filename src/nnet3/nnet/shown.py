"""Shown: a network as a picture, and as notebooks show it."""

from __future__ import annotations

import os
from html import escape
from typing import TYPE_CHECKING, Any, cast

from nnet3.drawing import MOST_SHOWN_BOXES, Picture, can_paint
from nnet3.nnet.picture import group_nodes, network_graph
from nnet3.text.html import folded, table

if TYPE_CHECKING:
    from nnet3.nnet.network import Nnet


class Shown:
    """Base of `Nnet`: what one sees of it."""

    def draw(self, path: str | os.PathLike[str] | None = None, *, every_node: bool = False, title: str = "") -> Picture:
        """A picture with `.svg` and `.dot`, a box for each layer or node; written to `path` (.svg, .png, .dot) if any.

        Raises DrawingError for networks of too many layers, and for SVG and PNG where Graphviz is not installed.
        """
        drawn = Picture(network_graph(cast("Nnet", self), title, every_node=every_node))
        if path is not None:
            drawn.save(path)
        return drawn

    def _repr_html_(self) -> str:
        nnet = cast("Nnet", self)
        layers = group_nodes(nnet)
        shown = self.draw().svg if len(layers) <= MOST_SHOWN_BOXES and can_paint() else ""
        facts = {"nodes": len(nnet.nodes), "components": len(nnet.components), "parameters": nnet.num_parameters}
        if nnet.is_simple:
            facts |= {"left context": nnet.left_context, "right context": nnet.right_context}
        counted = table([*facts], [[f"{number:,}" for number in facts.values()]], 0)
        return f"<p>{escape(repr(self))}</p>{counted}{shown}{folded('nodes and components', nnet.info())}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
