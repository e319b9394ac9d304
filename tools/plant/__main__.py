"""Plant bugs in lowering, passes, families and the proof, and say which of them the proof of programs notices.

    python -m tools.plant [--each 5] [--seed 0] [--workers 2] [--seconds 600] [--only passes/merging.py]

Each bug is planted in a process of its own, which compiles some networks, all proved, plain programs cindex by cindex.
It is noticed by the proof, or by another error, or changes no program, or a program that computes the same, or it is a
hole: a program that computes something else and is handed out. A bug of the proof itself is noticed if the proof raises
a false alarm, or misses one of some wrong programs. Exit status 1 if there are holes.
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

from nnet3.driver.proving import PROVE
from tests.proved_lowering import lowering_proved
from tools.mutation.mutant import Mutant
from tools.plant.bugs import bugs_of
from tools.plant.corpus import corpus
from tools.plant.trial import EQUAL, HOLE, MISSED, ROOT, STATES, Trial

_FOLDERS = ("lowering", "ir/passes", "families", "ir/proof")
_MOST_COMMANDS = 600  # of a plain program that is proved


def planted(each: int, seed: int, only: str = "") -> list[Mutant]:
    """Returns `each` bugs of every file, or of that whose path ends so: the first ones, then the second ones."""
    files = [file for folder in _FOLDERS for file in sorted((ROOT / "src/nnet3" / folder).glob("*.py"))]
    names = [str(file.relative_to(ROOT)) for file in files if str(file).endswith(only)]
    of_files = [bugs_of(name, (ROOT / name).read_text(), each, seed) for name in names]
    return [bug for bugs in itertools.zip_longest(*of_files) for bug in bugs if bug is not None]


@click.command(help=__doc__)
@click.option("--each", default=5, show_default=True, help="bugs for each file")
@click.option("--seed", default=0, show_default=True, help="of the choice of bugs")
@click.option("--workers", default=2, show_default=True)
@click.option("--seconds", default=3600.0, show_default=True, help="then no more bugs are planted")
@click.option("--only", default="", help="the file whose path ends so")
def main(each: int, seed: int, workers: int, seconds: float, only: str) -> None:
    os.environ[PROVE] = "all"
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    bugs = planted(each, seed, only)
    if not bugs:
        raise SystemExit(f"there is no place for a bug in a file '{only}'")
    counts = defaultdict[str, Counter[str]](Counter)
    with lowering_proved(_MOST_COMMANDS):
        trial = Trial(corpus())
        end = time.monotonic() + seconds
        for bug, verdict in itertools.takewhile(lambda _: time.monotonic() < end, trial.all(bugs, workers)):
            counts[bug.path][verdict.state] += 1
            click.echo(f"{verdict.state}: {bug.path}:{bug.line} {bug.kind}: {verdict.detail[:150]}")
            if verdict.state in (HOLE, MISSED, EQUAL):
                click.echo(f"  - {bug.change[0]}\n  + {bug.change[1]}")
    _show(counts)
    if any(of_file[HOLE] for of_file in counts.values()):
        raise SystemExit(1)


def _show(counts: dict[str, Counter[str]]) -> None:
    table = Table("file", "bugs", *STATES)
    rows = [(path.removeprefix("src/nnet3/"), counts[path]) for path in sorted(counts)]
    for name, of_file in [*rows, ("all", sum(counts.values(), Counter[str]()))]:
        table.add_row(name, str(of_file.total()), *(str(of_file[state] or "") for state in STATES))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
