"""What a picture says, wherever it says it: places depend on the fonts of a machine."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

_SVG = "{http://www.w3.org/2000/svg}"


def svg_contents(svg: str) -> dict[str, Counter[str | None]]:
    """The texts, the boxes and arcs by their titles, "n1" and "n1->n2", and the colours of their lines."""
    root = ElementTree.fromstring(svg)
    texts = Counter(element.text for element in root.iter(f"{_SVG}text"))
    parts = [group for group in root.iter(f"{_SVG}g") if group.get("class") in ("node", "edge")]
    titles = Counter(title.text for group in parts for title in group.iter(f"{_SVG}title"))
    colours = Counter(path.get("stroke") for group in parts for path in group.iter(f"{_SVG}path"))
    return {"texts": texts, "parts": titles, "colours": colours}
