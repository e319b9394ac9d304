"""Files of compiled computations that verbs read and write: `--read-cache`, `--write-cache`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from nnet3.base.kaldi_io.files import check_can_write
from nnet3.base.kaldi_io.replacing import PROGRAMS
from nnet3.cli.messages import say
from nnet3.engine.driver import ComputationCache
from nnet3.errors import ModelFormatError


@contextlib.contextmanager
def kept_cache(read: str | None, write: str | None) -> Iterator[ComputationCache]:
    """Opens a cache with the contents of the file `read`, if readable; writes it to the file `write` at the end."""
    if write:
        check_can_write(write, PROGRAMS)
    cache = ComputationCache()
    if read:
        try:
            cache.load(read)
        except ModelFormatError as error:
            say(f"warning: {error}: computations are compiled anew")
    yield cache
    if write:
        cache.save(write)
