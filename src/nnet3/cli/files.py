"""Files as a command line names them, in Kaldi's way: a path, `-`, `command |`, `| command`."""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from nnet3.base.kaldi_io.files import check_can_write, joined, read_stream
from nnet3.base.kaldi_io.load import open_rxfilename, write_wxfilenames
from nnet3.base.kaldi_io.parse_numbers import Buffer
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.replacing import MATRIX
from nnet3.base.kaldi_io.specifiers import parse_rxfilename
from nnet3.base.kaldi_io.streams import read_whole
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.text import decode_config
from nnet3.errors import ConfigError, Nnet3Error
from nnet3.model.hmm.topology import read_topology
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.hmm.tree import ContextDependency, make_transition_model
from nnet3.model.nnet import AcousticModel, Nnet, network_of
from nnet3.model.nnet.load import read_model, read_transition_model

_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20  # bytes unpacked at once
_WITH_OFFSET = re.compile(r".+:[0-9]+", re.DOTALL)


def load_model(name: str) -> Nnet | AcousticModel:
    """Returns the raw network or acoustic model of a model file."""
    return read_model(open_file(name))


def load_network(name: str) -> Nnet:
    """Returns the network of a model file, raw or not."""
    return network_of(load_model(name))


def load_network_to(device: str, name: str) -> Nnet:
    """Returns the network of a model file, on a device."""
    return load_network(name).to(device=device)


def load_acoustic_model(name: str) -> AcousticModel:
    """Returns the acoustic model of a file. Raises Nnet3Error for a raw network."""
    model = load_model(name)
    if not isinstance(model, AcousticModel):
        raise Nnet3Error(f"{name}: this is a raw network; an acoustic model (.mdl) is needed here")
    return model


def load_transitions(name: str) -> TransitionModel:
    """Returns the transition model that a file begins with."""
    return read_transition_model(open_file(name))


def load_tree(name: str) -> ContextDependency:
    """Returns the tree in a file."""
    return ContextDependency.read(open_file(name))


def make_transitions(tree: str, topology: str) -> TransitionModel:
    """Returns the transition model that a tree and a topology make."""
    return make_transition_model(load_tree(tree), read_topology(open_file(topology)))


def check_can_save(kind: str, *names: str) -> None:
    """Raises Nnet3Error, before long work is done, if files of a kind of `replacing.py` could not be written after it.

    Two outputs of one name are refused. Of the names "", "-" and "| command", which are no files, nothing is checked.
    """
    for name in names:
        if name not in ("", "-") and not name.startswith("|"):
            check_can_write(name, kind)


def numbers_kind(binary: bool) -> str:
    """Returns the kind of files of matrices, vectors and the like."""
    return MATRIX if binary else ""


def save_model(model: Nnet | AcousticModel, name: str, binary: bool) -> None:
    """Writes a model."""
    save(name, binary, model.write_to)


def save(name: str, binary: bool, write: Callable[[Writer], None]) -> None:
    """Writes a file with what `write` writes, in Kaldi's binary or text form."""
    save_together(binary, (name, write))


def save_together(binary: bool, *outputs: tuple[str, Callable[[Writer], None]]) -> None:
    """Writes several files as `save` writes one; after an error none of them is replaced."""
    written = [(name, Writer.of_file(binary), write) for name, write in outputs]
    for _, writer, write in written:
        write(writer)
    write_wxfilenames((name, writer) for name, writer, _ in written)


def read_text(name: str) -> str:
    """Returns the text of a file, also of one that gzip has packed. Raises ConfigError for bytes that are not text, and
    ModelFormatError for a packed file or a pipe of more bytes than are held."""
    contents = _read(name)
    return _decode(_unpacked(contents, name) if contents[:2] == _GZIP else contents, name)


def read_integers(name: str) -> list[int]:
    """Returns the whole numbers in a text file. Raises Nnet3Error for anything else in it."""
    words = read_text(name).split()
    if not all(word.isdecimal() and len(word) < 10 for word in words):
        raise Nnet3Error(f"{name}: expected whole numbers, one a line")
    return [int(word) for word in words]


def read_network_or_config(name: str, seed: int = 0) -> Nnet:
    """Returns the network of a model file, or a new one from a config or an xconfig."""
    if _is_model_path(name):
        return load_network(name)
    contents = _read(name)  # once: it may be a pipe
    if _begins_as_model(contents):
        return network_of(read_model(Reader(contents, _source(name))))
    nnet = Nnet((), {})
    _apply_config(nnet, _decode(contents, name), name, seed)
    return nnet


def apply_config_files(nnet: Nnet, names: Iterable[str], seed: int) -> None:
    """Applies configs and xconfigs in order."""
    for number, name in enumerate(names):
        _apply_config(nnet, read_text(name), name, seed + number)


def open_file(name: str) -> Reader:
    """Returns a reader of a file, or of a file from an offset on (`feats.ark:17`)."""
    has_offset = _WITH_OFFSET.fullmatch(name) and not os.path.exists(name)
    return open_rxfilename(name) if has_offset or _is_stream(name) else Reader.open(name)


def _apply_config(nnet: Nnet, text: str, name: str, seed: int) -> None:
    try:
        nnet.apply_config(text, source=_source(name), seed=seed)
    except ConfigError as error:
        if error.span is not None:
            raise
        raise Nnet3Error(f"{_source(name)}: {error}") from None  # about a config as a whole


def _unpacked(contents: Buffer, name: str) -> bytes:
    try:
        with gzip.open(io.BytesIO(contents)) as file:
            return joined(iter(lambda: file.read(_CHUNK), b""), name, "unpack it first")
    except (EOFError, OSError, zlib.error) as error:
        raise Nnet3Error(f"{name}: gzip cannot unpack this file: {error}") from None


def _is_stream(name: str) -> bool:
    return name == "-" or name.rstrip().endswith("|")


def _read(name: str) -> Buffer:
    if _is_stream(name):
        return read_whole(parse_rxfilename(name))
    if os.path.isfile(name):
        return Path(name).read_bytes()
    with open(name, "rb") as file:
        return read_stream(file)


def _decode(contents: Buffer, name: str) -> str:
    if _begins_as_model(contents):
        raise Nnet3Error(f"{name}: this is a model file; a text file such as a config is needed here")
    return decode_config(bytes(contents), _source(name))


def _is_model_path(name: str) -> bool:
    """Returns True for the path of a model file. It looks at the beginning only: such files can be large."""
    if not os.path.isfile(name):
        return False
    with open(name, "rb") as file:
        return _begins_as_model(file.read(64))


def _begins_as_model(contents: Buffer) -> bool:
    return contents[:64].lstrip().startswith((b"\0B", b"<Nnet3>", b"<TransitionModel>"))


def _source(name: str) -> str:
    return "<stdin>" if name == "-" else name
