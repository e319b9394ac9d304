"""May an output take the place of an old file? One answer, for all writers of files.

A file of the same kind may be replaced, as by a copy of a model to its own name. A page does not replace its model, and
words do not replace their recording. Text, and files of unknown kind, may be replaced by anything, unless the command
line names the file twice: for reading and for writing.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nnet3.errors import Nnet3Error

#: So many bytes tell of a kind.
HEAD = 64
ARCHIVE = "an archive"
MODEL = "a model, as Kaldi writes them"
MATRIX = "a matrix or vector, as Kaldi writes them"
ONNX = "an ONNX model"
FST = "an FST"
PAGE = "an HTML page"
PROGRAMS = "compiled programs"
#: What files of a kind begin with.
_KINDS = {
    MODEL: rb"(\0B)?\s*<[A-Z]",
    ARCHIVE: rb"\S+ (\0B|\s*\[|\xd6\xfd\xb2\x7e)",  # of matrices, vectors and the like, or of FSTs
    MATRIX: rb"\0B",
    "a recording": rb"RIF[FX]|fLaC|OggS|ID3|\xff[\xfb\xf3\xf2\xf1\xf9]|\.snd|.{4}ftyp|\x1aE\xdf\xa3",
    ONNX: rb"\x08[\x01-\x20][\x12\x1a\x22\x28\x32\x3a]",
    FST: rb"\xd6\xfd\xb2\x7e",
    "a file of safetensors": rb".{5}\0\0\0\{",
    PAGE: rb"\s*<(!DOCTYPE html|!doctype html|html)",
    "a picture": rb"\x89PNG|%PDF|\s*(<\?xml|<svg)",
    PROGRAMS: rb"nnet3 computation",
    "a ZIP file": rb"PK\x03\x04",
}
_PATTERNS = {kind: re.compile(pattern, re.DOTALL) for kind, pattern in _KINDS.items()}
_TWO_OUTPUTS = "two outputs are to be written here: give each a name of its own"
_named_twice: set[tuple[int, int]] = set()  # device and inode
_outputs: dict[str, str] = {}  # of the paths that are named twice: is a file "expected" there, or "written"?


def check_may_replace(target: Path, head: bytes, text_is: str = "") -> None:
    """Checks if content that begins with `head` may replace the file `target`, if any. Raises Nnet3Error if not.

    `text_is`: the kind that new text may be of.
    """
    _check_kind(target, _kind_of(head), text_is)


def expect_output(target: Path, kind: str) -> None:
    """Checks before long work if a file of a kind, "" for text, may be put in place after it. Raises Nnet3Error if not,
    and if another output is expected there."""
    if _outputs.get(str(target)):
        raise Nnet3Error(f"{target}: {_TWO_OUTPUTS}")
    _check_kind(target, kind)
    if str(target) in _outputs:
        _outputs[str(target)] = "expected"


def _check_kind(target: Path, new: str, text_is: str = "") -> None:
    if not target.is_file():
        return
    with open(target, "rb") as file:
        status, is_there = os.fstat(file.fileno()), _kind_of(file.read(HEAD))
    if is_there == new or (is_there == text_is and not new):
        return
    if is_there:
        raise Nnet3Error(
            f"{target}: this is {is_there}; {new or text_is or 'text or something else'} is not to take its place: "
            "write to another file, or remove this one first"
        )
    if status.st_size and (status.st_dev, status.st_ino) in _named_twice:
        raise Nnet3Error(f"{target}: this is read here; {new} is not to take its place: write to another file")


def check_file_may_replace(made: Path, target: Path, text_is: str = "") -> None:
    """Does what `check_may_replace` does with the beginning of a complete file."""
    with open(made, "rb") as file:
        check_may_replace(target, file.read(HEAD), text_is)


@contextmanager
def keeping_inputs(files: Iterable[str], paths: Iterable[str] = ()) -> Iterator[None]:
    """Takes a file named twice for an input, whatever its kind; a file at the path of another file is an error.

    `files`: the files of a command line. `paths`: the paths named there more than once, as `os.path.realpath` has them.
    """
    found: Counter[tuple[int, int]] = Counter()
    for name in files:
        status = os.stat(name)
        found[status.st_dev, status.st_ino] += 1
    before, outputs = _named_twice.copy(), _outputs.copy()
    _named_twice.update(file for file, count in found.items() if count > 1)
    _outputs.update(dict.fromkeys(paths, ""))
    try:
        yield
    finally:
        _named_twice.clear()
        _named_twice.update(before)
        _outputs.clear()
        _outputs.update(outputs)


def put_in_place(temporary: Path, target: Path, text_is: str = "") -> None:
    """Lets a complete file take the place of its target, with whose permissions. Raises OSError, Nnet3Error.

    `target` is no symbolic link.
    """
    if _outputs.get(str(target)) == "written":
        raise Nnet3Error(f"{target}: {_TWO_OUTPUTS}")
    check_file_may_replace(temporary, target, text_is)
    if target.exists():
        os.chmod(temporary, target.stat().st_mode & 0o777)
    os.replace(temporary, target)
    if str(target) in _outputs:
        _outputs[str(target)] = "written"


def _kind_of(head: bytes) -> str:
    return next((kind for kind, pattern in _PATTERNS.items() if pattern.match(head)), "")
