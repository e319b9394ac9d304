from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator

import click

from nnet3.cli import later
from nnet3.cli.text_table import Column, format_table
from nnet3.cli.verb import SEEING, verb

_MOST_WIDE = 120


@verb("explain the layers of xconfigs and their keys", SEEING)
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
    lines = _all_types(width) if layer is None else _one_type(later.expand.layer_type(layer), width)
    click.echo("\n".join(lines))


def _all_types(width: int) -> Iterator[str]:
    longest = max(map(len, later.registry.LAYER_TYPES))
    for family, types in later.registry.FAMILIES.items():
        yield f"{family}:"
        for layer_type in types:
            prefix = f"  {layer_type.name.ljust(longest)}  "
            yield textwrap.fill(layer_type.summary, width, initial_indent=prefix, subsequent_indent=" " * len(prefix))
        yield ""
    yield "`nnet3 xconfig-help LAYER` explains one of them."


def _one_type(layer_type: later.layer.LayerType, width: int) -> Iterator[str]:
    yield from textwrap.wrap(f"{layer_type.name}: {layer_type.summary}", width)
    rows = later.manual.key_rows(layer_type)
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
    yield from ("", "Example:", "", *(f"  {line}" for line in later.manual.example_lines(layer_type)))
    yield from ("", "The layer is drawn as", "", *(f"  {line}" for line in later.manual.drawing(layer_type)))
    yield from ("", "and stands for", "", *(f"  {line}" for line in later.manual.expansion_lines(layer_type)))
