"""The command line of the recipe."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import torch

from nnet3.errors import Nnet3Error
from recipes.spoken_digits_speakers.recipe import QUICK, Settings, run_recipe


@click.command()
@click.option("--recordings", type=click.Path(path_type=Path), required=True, help="ZIP of DIGIT_SPEAKER_INDEX.wav.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the results.")
@click.option("--quick", is_flag=True, help="Train little: to see it run, not for good figures.")
def main(recordings: Path, out: Path, quick: bool) -> None:
    """Train x-vector networks on spoken digits and report how well they tell speakers apart."""
    torch.set_num_threads(1)
    try:
        path = run_recipe(recordings, out, QUICK if quick else Settings())
    except Nnet3Error as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    click.echo(f"report: {path}")


if __name__ == "__main__":
    main()
