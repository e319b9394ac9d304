"""The command line of the recipe."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nnet3.errors import Nnet3Error
from recipes.spoken_digits_chain.recipe import QUICK, Settings, run_recipe


@click.command()
@click.option("--recordings", type=click.Path(path_type=Path), required=True, help="ZIP of DIGIT_SPEAKER_INDEX.wav.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the results.")
@click.option("--digits", type=click.Path(path_type=Path), help="Results of the recipe spoken_digits.")
@click.option("--quick", is_flag=True, help="Train little: to see it run, not for good figures.")
def main(recordings: Path, out: Path, digits: Path | None, quick: bool) -> None:
    """Train networks on strings of digits and report how well they do. What is done already is not done again."""
    try:
        path = run_recipe(recordings, out, QUICK if quick else Settings(), digits)
    except Nnet3Error as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    click.echo(f"report: {path}")


if __name__ == "__main__":
    main()
