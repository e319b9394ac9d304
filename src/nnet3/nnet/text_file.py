"""Config files by path, and what kind of file it is that somebody gave in the place of another."""

from __future__ import annotations

import os

from nnet3.errors import ConfigError, ModelFormatError
from nnet3.kaldi_io.files import check_is_path, map_file
from nnet3.text import decode_config

_MODEL_STARTS = (b"\0B", b"<Nnet3>", b"<TransitionModel>")
_MOST_BYTES = 1 << 28


def read_config_file(path: str | os.PathLike[str]) -> str:
    """The text of a config file. Raises ConfigError if it cannot be read or is a model rather than a config."""
    check_is_path(path, "a config file")
    name = os.fspath(path)
    try:
        contents = map_file(path)
    except ModelFormatError as error:
        raise ConfigError(str(error)) from None
    if contents[:64].lstrip().startswith(_MODEL_STARTS):
        raise ConfigError(f"{name}: this is a model file, not a config: nnet3.load reads it")
    if len(contents) > _MOST_BYTES:
        raise ConfigError(f"{name}: this file of {len(contents):,} bytes is too large to be a config")
    return decode_config(bytes(contents), name)
