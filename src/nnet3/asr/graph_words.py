"""The digest of the words that a decoding graph was made of, which lies beside it: other words would be wrong ones."""

from __future__ import annotations

import hashlib
from pathlib import Path

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import write_atomically

DIGEST = "words.sha256"  # as sha256sum has it


def write_digest(folder: Path) -> None:
    """Write the digest of a folder's words.txt."""
    write_atomically(folder / DIGEST, f"{_digest_of(folder / 'words.txt')}  words.txt\n".encode())


def check_words(graph: Path, words: Path) -> None:
    """Check that a graph was made of these words, if that lies beside it. Raises ModelFormatError for other words."""
    try:
        known = (graph.parent / DIGEST).read_text(errors="replace").split()
    except OSError:
        return
    if known[:1] != [_digest_of(words)]:
        raise ModelFormatError(
            f"{graph} was made of other words, says {DIGEST} beside it: make the graph again (nnet3 mkgraph), "
            f"or remove {DIGEST} if only their names have changed",
            str(words),
        )


def _digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
