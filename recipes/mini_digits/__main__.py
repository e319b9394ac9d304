"""The command line of the recipe."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from nnet3.errors import Nnet3Error
from recipes.mini_digits.lines import Lines
from recipes.mini_digits.recipe import MiniDigitsRun
from recipes.mini_digits.settings import QUICK, MiniDigits


@click.command()
@click.option("--recordings", type=click.Path(path_type=Path), required=True, help="ZIP of DIGIT_SPEAKER_INDEX.wav.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the results.")
@click.option("--jobs", type=click.IntRange(1, 6), default=2, show_default=True, help="Parts of the data at once.")
@click.option("--processes", type=click.IntRange(1), default=1, show_default=True, help="Of a training, by torchrun.")
@click.option("--quick", is_flag=True, help="Train little: to see it run, not for good figures.")
def main(recordings: Path, out: Path, jobs: int, processes: int, quick: bool) -> None:
    """Go from recordings of digits to a recognizer of strings of digits. What is done already is not done again."""
    try:
        with _alone(out):
            path = MiniDigitsRun(recordings, out, QUICK if quick else MiniDigits(), Lines(jobs, processes)).run()
    except (Nnet3Error, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    click.echo((path.read_text().partition("![")[0]).strip())
    click.echo(f"report: {path}")


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Keeps a second run out of the folder. Raises Nnet3Error if there is one."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Nnet3Error(
                f"{out}: another run is at work in this folder: wait for it, or give another --out"
            ) from None
        yield


if __name__ == "__main__":
    main()
