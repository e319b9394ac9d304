"""Keeps what the command lines of commands.txt do, and compares it with what was kept before.

`record FOLDER` before a change that is to change nothing on the command line, `compare FOLDER` after it. Of each
command line are kept: the exit status, what is printed on stdout and stderr, which files are written (with their
SHA-256) and removed. What differs between two runs of one program, such as times, is masked (masking.py).
"""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import click

from tools.command_lines.running import ROOT, Record, run_groups

LIST = Path(__file__).with_name("commands.txt")
_HEADING = re.compile(r"== ([\w-]+)")


def read_groups(text: str) -> dict[str, list[str]]:
    """Returns the command lines of each group. Raises ValueError for a group or a command line that is there twice."""
    groups: dict[str, list[str]] = {}
    for line in text.splitlines():
        if match := _HEADING.fullmatch(line):
            if match[1] in groups:
                raise ValueError(f"two groups are called {match[1]}")
            lines = groups[match[1]] = []
        elif line.strip() and not line.startswith("#"):
            if line in lines:
                raise ValueError(f"this is there twice in one group: {line}")
            lines.append(line)
    return groups


def differences(recorded: Mapping[str, Record], now: Mapping[str, Record]) -> Iterator[str]:
    """A unified diff for each command line that differs; the record of one that is not there is empty."""
    for line in dict.fromkeys([*recorded, *now]):
        diff = list(difflib.unified_diff(recorded.get(line, []), now.get(line, []), "recorded", "now", lineterm=""))
        if diff:
            yield "\n".join([f"$ {line}", *diff, ""])


@click.command()
@click.option(
    "--shared", type=click.Path(exists=True, path_type=Path), default=ROOT.parent / "shared", show_default=True
)
@click.option("--workers", type=click.IntRange(1), default=os.cpu_count(), show_default=True, help="Groups at once.")
@click.argument("mode", type=click.Choice(["record", "compare"]))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.argument("chosen", nargs=-1, metavar="[GROUP]...")
def main(shared: Path, workers: int, mode: str, folder: Path, chosen: tuple[str, ...]) -> None:
    """Record what command lines do, or compare it with a recording (exit status 1 if anything differs).

    GROUPs are those of commands.txt; without them all are run.
    """
    groups = read_groups(LIST.read_text())
    if unknown := set(chosen) - set(groups):
        raise click.UsageError(f"there is no group {', '.join(sorted(unknown))}; there are {', '.join(groups)}")
    recorded = {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
    if mode == "compare" and not recorded:
        raise click.UsageError(f"there is no recording in {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    start, count, different = time.monotonic(), 0, 0
    now = run_groups({name: groups[name] for name in chosen or groups}, shared.resolve(), workers)
    gone: list[tuple[str, dict[str, Record]]] = [(name, {}) for name in recorded if not chosen and name not in groups]
    for name, records in chain(now, gone):
        count += len(records)
        if mode == "compare":
            found = list(differences(recorded.get(name, {}), records))
            different += len(found)
            click.echo("\n".join(found), nl=bool(found))
        elif records:
            (folder / f"{name}.json").write_text(json.dumps(records, indent=1) + "\n")
        else:
            (folder / f"{name}.json").unlink()
    ended = f"{count} command lines of {ROOT} in {time.monotonic() - start:.0f} s"
    click.echo(f"{ended}: recorded in {folder}" if mode == "record" else f"{ended}: {different} differ from {folder}")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
