"""Options and arguments that several verbs share."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from nnet3.cli.messages import say
from nnet3.errors import ConfigError, Nnet3Error, Span
from nnet3.nnet import AcousticModel, Nnet, load, load_nnet

# Kaldi's programs take --flag=true and --flag=false.
KALDI_BOOL = click.BOOL

binary_option = click.option(
    "--binary", type=KALDI_BOOL, default=True, show_default=True, help="Write in binary mode (false: text)."
)
seed_option = click.option(
    "--srand", "seed", type=int, default=0, show_default=True, help="Seed of the random initial values."
)


def read_text(path: str) -> str:
    """The text of a config file, or of standard input for `-`. Raises ConfigError for bytes that are not text."""
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    if _begins_as_model(data):
        raise Nnet3Error(f"{path}: this is a model file; a text file such as a config is needed here")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        shown = data.splitlines()[line - 1][:80].decode("ascii", "replace")
        raise ConfigError("not a text file (it is not UTF-8)", Span(path, line, 1, 1, shown)) from None


def print_warnings(warnings: Iterable[str]) -> None:
    """Warnings on stderr, one a line."""
    for warning in warnings:
        say(f"warning: {warning}")


def apply_config_files(nnet: Nnet, paths: Iterable[str], seed: int) -> None:
    """Apply config files in order, with the warnings of the last."""
    for number, path in enumerate(paths):
        with _naming(path):
            nnet.apply_config(read_text(path), source=_source(path), seed=seed + number)
    print_warnings(nnet.warnings)


def is_model_file(path: str) -> bool:
    """Whether a file begins as a model file does, in binary or text."""
    if path == "-":
        return False
    with open(path, "rb") as file:
        return _begins_as_model(file.read(64))


def _begins_as_model(data: bytes) -> bool:
    return data[:64].lstrip().startswith((b"\0B", b"<Nnet3>", b"<TransitionModel>"))


def _source(path: str) -> str:
    return "<stdin>" if path == "-" else path


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Errors about a config as a whole begin with its name, as those about a line do."""
    try:
        yield
    except ConfigError as error:
        if error.span is not None:
            raise
        raise Nnet3Error(f"{_source(path)}: {error}") from None


def read_network_or_config(path: str) -> Nnet:
    """The network of a model file, or a new one from a config file."""
    if is_model_file(path):
        return load_nnet(path)
    with _naming(path):
        return Nnet.from_config(read_text(path), source=_source(path))


def load_acoustic_model(path: str) -> AcousticModel:
    """The acoustic model of a file. Raises Nnet3Error for a raw network."""
    model = load(path)
    if not isinstance(model, AcousticModel):
        raise Nnet3Error(f"{path}: this is a raw network; an acoustic model (.mdl) is needed here")
    return model
