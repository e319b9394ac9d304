"""Graphviz paints graphs: the program `dot` where it is installed, else the library in the package pygraphviz."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from nnet3.base.drawing.dot import Graph, to_dot
from nnet3.base.kaldi_io.files import write_atomically
from nnet3.errors import DrawingError

_MOST_SECONDS = 120
_PNG_DPI = 160
# In a process of its own: an assertion of Graphviz that fails ends the process, and large graphs may take for ever.
# The current folder is no place to import from.
_SCRIPT = """
import sys
sys.path[:1] = []
engine, format, *options = sys.argv[1:]
try:
    import pygraphviz
    graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode())
    sys.stdout.buffer.write(graph.draw(prog=engine, format=format, args=" ".join(options)))
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def can_paint() -> bool:
    """Tells whether a painter is available."""
    return shutil.which("dot") is not None or find_spec("pygraphviz") is not None


def render(graph: Graph, format: str, use_program: bool | None = None) -> bytes:
    """Returns a picture in a format of Graphviz, such as svg or png.

    `use_program`: the program `dot` (True) or pygraphviz (False); by default the program if available, else pygraphviz.
    Raises DrawingError if the painter is missing, fails, or takes more than two minutes.
    """
    engine = "nop" if graph.is_grid else "dot"
    options = [f"-Gdpi={_PNG_DPI}"] if format == "png" else []
    has_program = shutil.which("dot") is not None
    if has_program if use_program is None else use_program:
        command = ["dot", f"-K{engine}", f"-T{format}", *options]
    elif find_spec("pygraphviz") is not None:
        command = [sys.executable, "-c", _SCRIPT, engine, format, *options]
    else:
        raise DrawingError(
            f"a picture as .{format} needs Graphviz: pip install 'nnet3[drawing]', or install the program dot; "
            "a .dot file needs neither"
        )
    try:
        done = subprocess.run(
            command, input=to_dot(graph).encode(), capture_output=True, timeout=_MOST_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DrawingError(f"Graphviz failed on {len(graph.nodes)} boxes: {error}") from None
    if done.returncode:
        raise DrawingError(f"Graphviz failed: {done.stderr.decode(errors='replace').strip()[-500:]}")
    return done.stdout


FORMATS = ("svg", "png", "dot")


def to_svg(graph: Graph, *, use_graphviz: bool | None = None) -> str:
    """Returns an SVG element, which is a whole file too. `use_graphviz`: see `draw`."""
    text = render(graph, "svg", use_graphviz).decode()
    return text[text.index("<svg") :]


def draw(graph: Graph, format: str, *, use_graphviz: bool | None = None) -> bytes:
    """Returns the contents of a file of a format: svg, png or dot.

    `use_graphviz`: whether the program `dot` of this machine paints, or else the library in pygraphviz; by
    default the program if installed. Raises DrawingError without a painter, and for other formats.
    """
    if format not in FORMATS:
        raise DrawingError(f"a picture can be written as {', '.join(FORMATS)}, not as '{format}'")
    if format == "svg":
        return to_svg(graph, use_graphviz=use_graphviz).encode()
    return to_dot(graph).encode() if format == "dot" else render(graph, format, use_graphviz)


MOST_SHOWN_BOXES = 60  # of a network that a notebook shows without being asked for a picture


@dataclass(frozen=True)
class Picture:
    """A drawn network, shown by notebooks."""

    graph: Graph

    @property
    def dot(self) -> str:
        """Text for Graphviz."""
        return to_dot(self.graph)

    @property
    def svg(self) -> str:
        """The text of an SVG file."""
        return to_svg(self.graph)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes an .svg, .png or .dot file, whole or not at all. Raises DrawingError for other names."""
        write_atomically(path, draw(self.graph, Path(path).suffix.removeprefix(".")))

    def _repr_svg_(self) -> str:
        return self.svg
