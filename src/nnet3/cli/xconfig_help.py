"""`nnet3 xconfig-help`: the layer types of xconfigs and their keys."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from nnet3.cli.lazy import LazyModule
from nnet3.cli.text_table import Column, format_table
from nnet3.cli.verb import verb

if TYPE_CHECKING:
    from nnet3.nnet.xconfig import expand, manual, registry
    from nnet3.nnet.xconfig import layer as layers
else:
    expand = LazyModule("nnet3.nnet.xconfig.expand")
    layers = LazyModule("nnet3.nnet.xconfig.layer")
    manual = LazyModule("nnet3.nnet.xconfig.manual")
    registry = LazyModule("nnet3.nnet.xconfig.registry")

_MOST_WIDE = 120


@verb("xconfig-help")
@click.argument("layer", required=False, metavar="[LAYER]")
def command(layer: str | None) -> None:
    """List the layer types of xconfigs, or explain one: its keys, an example, what it stands for, a drawing.

    docs/xconfig.md has the same for all of them.

    \b
    Examples:
      nnet3 xconfig-help
      nnet3 xconfig-help tdnnf-layer
    """
    width = min(_MOST_WIDE, shutil.get_terminal_size().columns)
    lines = _all_types(width) if layer is None else _one_type(expand.layer_type(layer), width)
    click.echo("\n".join(lines))


def _all_types(width: int) -> Iterator[str]:
    longest = max(map(len, registry.LAYER_TYPES))
    for family, types in registry.FAMILIES.items():
        yield f"{family}:"
        for layer_type in types:
            prefix = f"  {layer_type.name.ljust(longest)}  "
            yield textwrap.fill(layer_type.summary, width, initial_indent=prefix, subsequent_indent=" " * len(prefix))
        yield ""
    yield "`nnet3 xconfig-help LAYER` explains one of them."


def _one_type(layer_type: layers.LayerType, width: int) -> Iterator[str]:
    yield from textwrap.wrap(f"{layer_type.name}: {layer_type.summary}", width)
    rows = manual.key_rows(layer_type)
    if rows:
        yield ""
        meanings = [
            f"{row.meaning} {row.values[0].upper()}{row.values[1:]}." if row.values else row.meaning for row in rows
        ]
        columns = [
            Column("key", [row.name for row in rows]),
            Column("type", [row.kind for row in rows]),
            Column("default", [row.default for row in rows]),
            Column("meaning", meanings),
        ]
        yield from format_table(columns, width)
    yield from ("", "Example:", "", *(f"  {line}" for line in manual.example_lines(layer_type)))
    yield from ("", "The layer is drawn as", "", *(f"  {line}" for line in manual.drawing(layer_type)))
    yield from ("", "and stands for", "", *(f"  {line}" for line in manual.expansion_lines(layer_type)))
