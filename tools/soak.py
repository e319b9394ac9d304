"""Prove random networks, compiled with different passes, for as long as asked: `make soak SECONDS=600`.

    python -m tools.soak --seconds 600 [--first 0] [--workers 2]
    python -m tools.soak --seed 1234

Each program is proved equal to the one without passes: what all passes make of it, those up to each level, and some
of the passes alone and left out, which the seed draws. Numbers are compared for one seed of fifty. The second one
repeats a seed with all choices of passes and its numbers, and prints its network. Exit status 1 if anything is
different.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import NamedTuple

import click
import torch

from nnet3.engine.ir.objects import many_objects
from tests.differential.comparison import changed_by, problems, unproved
from tests.differential.subjects import subject
from tests.differential.variants import Variant, all_variants, drawn_variants

_REPORT = 30.0  # seconds between lines
_NUMBERS = 50  # of so many seeds the numbers of one are compared


class Checked(NamedTuple):
    """What is known of a seed. `changed`: the passes that change its programs, None if it has no network."""

    seed: int
    changed: set[str] | None
    different: list[str]


def check_seed(seed: int, variants: Sequence[Variant] = (), most: int | None = None, numbers: bool = True) -> Checked:
    """Prove the programs of a seed, and compare what they give if `numbers` says so; at most so much is told.

    An error is a difference.
    """
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    changed: set[str] | None = set()
    try:
        with many_objects():
            made = subject(seed)
            if made is None:
                return Checked(seed, None, [])
            compared = variants or all_variants()
            found = itertools.chain(unproved(made, compared), problems(made, compared) if numbers else ())
            different = list(itertools.islice(found, most))
            changed = changed_by(made)
    except Exception as error:
        different = [f"{type(error).__name__}: {error}"]
    return Checked(seed, changed, different)


def _proved(seed: int) -> Checked:
    return check_seed(seed, drawn_variants(seed), numbers=seed % _NUMBERS == 0)


def checked(seeds: Iterator[int], seconds: float, workers: int) -> Iterator[Checked]:
    """Yields what `check_seed` gives for seeds, in any order, until the time is over."""
    end = time.monotonic() + seconds
    if workers == 1:
        yield from itertools.takewhile(lambda _: time.monotonic() < end, map(_proved, seeds))
        return
    with ProcessPoolExecutor(workers) as pool:
        waiting: set[Future[Checked]] = set()
        while time.monotonic() < end:
            waiting |= {pool.submit(_proved, next(seeds)) for _ in range(2 * workers - len(waiting))}
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (each.result() for each in done)
        yield from (each.result() for each in waiting)


@click.command(help=__doc__)
@click.option("--seconds", default=600.0, show_default=True)
@click.option("--first", default=0, show_default=True, help="the first seed")
@click.option("--workers", default=1, show_default=True)
@click.option("--seed", type=int, help="only this one, and print its network")
def main(seconds: float, first: int, workers: int, seed: int | None) -> None:
    if seed is not None:
        made = subject(seed)
        click.echo(made.text if made else f"seed {seed} asks what cannot be computed")
        found = check_seed(seed).different
        click.echo("\n".join(found) or "nothing is different")
        raise SystemExit(bool(found))
    seeds = networks = wrong = 0
    last, reported = first - 1, time.monotonic()
    passes: Counter[str] = Counter()
    for number, changed, different in checked(itertools.count(first), seconds, workers):
        seeds, networks, wrong, last = (
            seeds + 1,
            networks + (changed is not None),
            wrong + bool(different),
            max(last, number),
        )
        passes.update(changed or ())
        if different:
            click.echo(f"seed {number}: {len(different)} differences, the first: {different[0]}")
            click.echo(f"  to see it again: python -m tools.soak --seed {number}")
        if time.monotonic() - reported > _REPORT:
            reported = time.monotonic()
            click.echo(f"seeds {first} to {last}: {networks} networks, {wrong} with differences")
    click.echo(f"seeds {first} to {last} ({seeds}): {networks} networks, {wrong} with differences")
    click.echo("networks that passes change: " + ", ".join(f"{name} {count}" for name, count in passes.most_common()))
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
