"""Stages of a recipe: each leaves a folder, and is done again only if something that it depends on has changed."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from nnet3.kaldi_io import write_atomically


@dataclass(frozen=True)
class Stage:
    """A stage that is done: where its results are, and a key of all they depend on."""

    folder: Path
    key: str


def run_stage(out: Path, name: str, depends_on: Mapping[str, object], make: Callable[[Path], None]) -> Stage:
    """`make(folder)`, unless it was done before for the same `depends_on` (numbers, strings, keys of other stages).

    `make` finds in the folder what an interrupted run of the same kind has left; what others left is removed.
    """
    text = json.dumps(dict(depends_on), indent=1, sort_keys=True)
    stage = Stage(out / name, hashlib.sha256(f"{name}\n{text}".encode()).hexdigest()[:16])
    begun, done = stage.folder / "begun.json", stage.folder / "done.json"
    if done.is_file() and done.read_text() == text:
        click.echo(f"{name}: done before")
        return stage
    if not (begun.is_file() and begun.read_text() == text):
        shutil.rmtree(stage.folder, ignore_errors=True)
        stage.folder.mkdir(parents=True)
        begun.write_text(text)
    click.echo(f"{name} ...")
    make(stage.folder)
    write_atomically(done, text.encode())
    return stage


def key_of_file(path: Path) -> str:
    """A key of what is in the file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
