"""The digest of a graph's words, in a file beside the graph: with another list of words results would be wrong."""

from __future__ import annotations

import hashlib
from pathlib import Path

from nnet3.base.kaldi_io.files import write_atomically
from nnet3.errors import ModelFormatError

DIGEST = "words.sha256"  # as sha256sum has it; of a folder's decoding graph


def digest_of_grammar(grammar: Path) -> Path:
    """Returns the file for the digest of a grammar's words; a decoding graph may lie in the same folder."""
    return grammar.with_suffix(f".{DIGEST}")


def write_digest(digest: Path, words: Path) -> None:
    """Writes the digest of the words that a graph was made of."""
    write_atomically(digest, digest_text(words.read_bytes(), words.name).encode())


def digest_text(words: bytes, name: str) -> str:
    """Returns the contents of the digest of a file of words with this name."""
    return f"{hashlib.sha256(words).hexdigest()}  {name}\n"


def check_words(graph: Path, words: Path, digest: Path | None = None) -> None:
    """Checks the digest beside a graph, if any, against `words`. Raises ModelFormatError for other words."""
    digest = digest or graph.parent / DIGEST
    try:
        known = digest.read_text(errors="replace").split()
    except OSError:
        return
    if known[:1] != [hashlib.sha256(words.read_bytes()).hexdigest()]:
        maker = "mkgraph" if digest.name == DIGEST else "arpa2fst"
        raise ModelFormatError(
            f"{graph} was made of other words, says {digest.name} beside it: make it again (nnet3 {maker}), "
            f"or remove {digest.name} if only their names have changed",
            str(words),
        )
