from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from nnet3.cli import later
from nnet3.cli.messages import print_warnings
from nnet3.cli.options import arguments, flag
from nnet3.cli.verb import SEEING, verb

_FORMS = ("svg", "png", "dot")
_RANGE = re.compile(r"(-?\d{1,6})(?::(-?\d{1,6}))?")


@verb("draw a network as a picture", SEEING)
@click.option("--unroll", metavar="FIRST:LAST", help="Draw what the output at these frames is computed from.")
@click.option("--input", "given", metavar="FIRST:LAST", help="With --unroll: the frames of input that are given.")
@flag("--every-node", help="A box for each node rather than for each layer.")
@flag("--graphviz", default=None, help="Use the program dot (default: if it is installed).")
@arguments(source="MODEL-OR-CONFIG", output="PICTURE")
def command(
    source: str, output: str, unroll: str | None, given: str | None, every_node: bool, graphviz: bool | None
) -> None:
    """Draw a network as a .svg, .png or .dot file (- prints SVG): layers with their dimensions and descriptors, which
    frames of each other they take, and recurrences, which are dashed.

    With --unroll, each layer is drawn once for each frame at which it is computed.

    \b
    Examples:
      nnet3 draw final.mdl final.svg
      nnet3 draw --unroll=0:2 network.config unrolled.png
    """
    form = "svg" if output == "-" else Path(output).suffix.removeprefix(".").lower()
    if form not in _FORMS:
        raise click.UsageError(f"the name of the picture must end in .{', .'.join(_FORMS)}, got '{output}'")
    if given is not None and unroll is None:
        raise click.UsageError("--input says what --unroll may use: give both")
    nnet = later.files.read_network_or_config(source)
    print_warnings(nnet.warnings)
    title = "" if source == "-" else Path(source).name
    if unroll is None:
        graph = later.picture.network_graph(nnet, title, every_node=every_node)
    else:
        graph = later.unrolled.unrolled_graph(nnet, _frames(nnet, unroll, given), title)
    contents = later.drawing.draw(graph, form, use_graphviz=graphviz)
    if output == "-":
        sys.stdout.buffer.write(contents)
    else:
        later.kaldi_io.write_atomically(output, contents)


def _frames(nnet: later.network.Nnet, unroll: str, given: str | None) -> later.unrolled.Frames:
    first, last = _range("--unroll", unroll)
    if given is not None:
        return later.unrolled.Frames(first, last, *_range("--input", given))
    left, right = (nnet.left_context, nnet.right_context) if nnet.is_simple else (0, 0)
    return later.unrolled.Frames(first, last, first - left, last + right)


def _range(option: str, text: str) -> tuple[int, int]:
    match = _RANGE.fullmatch(text)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        raise click.UsageError(f"{option} must be FIRST:LAST such as 0:3, got '{text}'")
    return int(match[1]), int(match[2] or match[1])
