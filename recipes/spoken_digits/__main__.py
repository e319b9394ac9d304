"""The command line of the recipe."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import torch

from nnet3.errors import Nnet3Error
from recipes.spoken_digits.recipe import run_recipe
from recipes.spoken_digits.settings import QUICK, Settings


@click.command()
@click.option("--recordings", type=click.Path(path_type=Path), required=True, help="ZIP of DIGIT_SPEAKER_INDEX.wav.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the results.")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Networks trained at a time.")
@click.option("--quick", is_flag=True, help="Train little: to see it run, not for good figures.")
def main(recordings: Path, out: Path, jobs: int, quick: bool) -> None:
    """Train networks on spoken digits and report how well they do. What is done already is not done again."""
    torch.set_num_threads(1)  # the networks are small: several at a time make better use of the cores
    try:
        path = run_recipe(recordings, out, QUICK if quick else Settings(), jobs)
    except Nnet3Error as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    click.echo(f"report: {path}")


if __name__ == "__main__":
    main()
