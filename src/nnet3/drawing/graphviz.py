"""Painting by Graphviz: the program `dot` where it is installed, else the library in the package pygraphviz."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec

from nnet3.drawing.dot import to_dot
from nnet3.drawing.graph import Graph
from nnet3.errors import DrawingError

_MOST_SECONDS = 120
_PNG_DPI = 160
# In a process of its own: an assertion of Graphviz that fails ends the process, and large graphs may take for ever.
# The current folder is no place to import from.
_SCRIPT = """
import sys
sys.path[:1] = []
engine, form, *options = sys.argv[1:]
try:
    import pygraphviz
    graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode())
    sys.stdout.buffer.write(graph.draw(prog=engine, format=form, args=" ".join(options)))
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def can_paint() -> bool:
    """Tells whether there is anything that paints."""
    return shutil.which("dot") is not None or find_spec("pygraphviz") is not None


def render(graph: Graph, form: str, use_program: bool | None = None) -> bytes:
    """Returns a picture in a form of Graphviz, such as svg or png.

    `use_program`: the program `dot` (True) or pygraphviz (False); by default the first of them that is there. Raises
    DrawingError if it is not there, fails, or takes more than two minutes.
    """
    engine = "nop" if graph.is_grid else "dot"
    options = [f"-Gdpi={_PNG_DPI}"] if form == "png" else []
    has_program = shutil.which("dot") is not None
    if has_program if use_program is None else use_program:
        command = ["dot", f"-K{engine}", f"-T{form}", *options]
    elif find_spec("pygraphviz") is not None:
        command = [sys.executable, "-c", _SCRIPT, engine, form, *options]
    else:
        raise DrawingError(
            f"a picture as .{form} needs Graphviz: pip install 'nnet3[drawing]', or install the program dot; "
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
