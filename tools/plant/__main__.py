"""Plant bugs in lowering, passes, families, the planner, native operations and proofs, and say who notices them.

    python -m tools.plant [--each 5] [--seed 0] [--workers 2] [--seconds 3600] [--most 6] [--only planner]

Each bug is planted in a process of its own, which makes what executes a line of it: programs, plans or numbers of some
small networks, all proved, plain programs cindex by cindex. It is noticed by a proof, by the checker, by another error
or, in native code, by numbers; or it changes nothing, or what it changes computes the same, or it is a hole: something
else is computed and handed out. A bug of a proof is noticed if it raises a false alarm, or misses something that is
wrong, or fails a test of proofs; equal.txt has those that change nothing which can be noticed. Exit status 1 if there
are holes, or bugs of proofs that nobody notices.
"""

from __future__ import annotations

import itertools
import os
import time
import warnings
from collections import Counter, defaultdict

import click
import torch
from rich.console import Console
from rich.table import Table

from nnet3.engine.driver.proving import PROVE
from tests.proved_lowering import lowering_proved
from tools.plant.corpus import corpus
from tools.plant.rooms import ROOMS, paths_of, planted
from tools.plant.trial import EQUAL, HOLE, MISSED, NOT_RUN, STATES, Trial

_MOST_COMMANDS = 600  # of a plain program that is proved


@click.command(help=__doc__)
@click.option("--each", default=5, show_default=True, help="bugs for each file")
@click.option("--seed", default=0, show_default=True, help="of the choice of bugs")
@click.option("--workers", default=2, show_default=True)
@click.option("--seconds", default=3600.0, show_default=True, help="then no more bugs are planted")
@click.option("--most", default=6.0, show_default=True, help="seconds of cases with which a bug is tried")
@click.option("--only", default="", help="files, by a part of their path or of the name of their room")
def main(each: int, seed: int, workers: int, seconds: float, most: float, only: str) -> None:
    os.environ[PROVE] = "all"
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    warnings.filterwarnings("error", "native code finds no proof")  # else NumPy hides what native code gets wrong
    bugs = planted(each, seed, only)
    if not bugs:
        raise SystemExit(f"there is no place for a bug in a file or a room called '{only}'")
    counts = defaultdict[str, Counter[str]](Counter)
    end = time.monotonic() + seconds
    with lowering_proved(_MOST_COMMANDS):
        trial = Trial(corpus(), bugs, most)
        for bug, verdict in itertools.takewhile(lambda _: time.monotonic() < end, trial.all(workers)):
            counts[bug.path][verdict.state] += 1
            click.echo(f"{verdict.state}: {bug.path}:{bug.line} {bug.kind}: {verdict.detail[:150]}")
            if verdict.state in (HOLE, MISSED, EQUAL, NOT_RUN):
                click.echo(f"  - {bug.change[0]}\n  + {bug.change[1]}")
    _show(counts)
    if any(of_file[state] for of_file in counts.values() for state in (HOLE, MISSED)):
        raise SystemExit(1)


def _show(counts: dict[str, Counter[str]]) -> None:
    table = Table("file", "bugs", *STATES)
    for room in ROOMS:
        of_files = {path: counts[path] for path in paths_of(room) if path in counts}
        if of_files:
            rows = {path.removeprefix("src/nnet3/"): each for path, each in of_files.items()}
            rows[f"all of {room.name}"] = sum(of_files.values(), Counter[str]())
            for name, found in rows.items():
                table.add_row(name, str(found.total()), *(str(found[state] or "") for state in STATES))
            table.add_section()
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
