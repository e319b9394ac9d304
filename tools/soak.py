"""Compare random networks, compiled with different passes, for as long as asked: `make soak SECONDS=600`.

    python -m tools.soak --seconds 600 [--first 0] [--workers 2]
    python -m tools.soak --seed 1234

The second one repeats a seed, and prints its network. Exit status 1 if anything is different.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

import click
import torch

from nnet3.ir.objects import many_objects
from tests.differential.comparison import problems
from tests.differential.subjects import subject
from tests.differential.variants import Variant, all_variants

_REPORT = 30.0  # seconds between lines


def check_seed(seed: int, variants: Sequence[Variant] = (), most: int | None = None) -> tuple[int, bool, list[str]]:
    """Returns the seed, whether it has a network, and what is different, at most so much; an error is a difference."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    try:
        with many_objects():
            made = subject(seed)
            found = [] if made is None else list(itertools.islice(problems(made, variants or all_variants()), most))
    except Exception as error:
        return seed, True, [f"{type(error).__name__}: {error}"]
    return seed, made is not None, found


def checked(seeds: Iterator[int], seconds: float, workers: int) -> Iterator[tuple[int, bool, list[str]]]:
    """Yields what `check_seed` gives, in any order, until the time is over."""
    end = time.monotonic() + seconds
    if workers == 1:
        yield from itertools.takewhile(lambda _: time.monotonic() < end, map(check_seed, seeds))
        return
    with ProcessPoolExecutor(workers) as pool:
        waiting: set[Future[tuple[int, bool, list[str]]]] = set()
        while time.monotonic() < end:
            waiting |= {pool.submit(check_seed, next(seeds)) for _ in range(2 * workers - len(waiting))}
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
        found = check_seed(seed)[2]
        click.echo("\n".join(found) or "nothing is different")
        raise SystemExit(bool(found))
    seeds = networks = wrong = 0
    last, reported = first - 1, time.monotonic()
    for number, has_network, different in checked(itertools.count(first), seconds, workers):
        seeds, networks, wrong, last = seeds + 1, networks + has_network, wrong + bool(different), max(last, number)
        if different:
            click.echo(f"seed {number}: {len(different)} differences, the first: {different[0]}")
            click.echo(f"  to see it again: python -m tools.soak --seed {number}")
        if time.monotonic() - reported > _REPORT:
            reported = time.monotonic()
            click.echo(f"seeds {first} to {last}: {networks} networks, {wrong} with differences")
    click.echo(f"seeds {first} to {last} ({seeds}): {networks} networks, {wrong} with differences")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
