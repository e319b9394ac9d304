"""Files of const-arpa models, of the present format and the old one; written byte for byte as Kaldi writes them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.int32_table import TAGGED
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.speech.language_models.const_arpa import ConstArpa

_TAGGED_LONG = np.dtype([("size", "u1"), ("value", "<i8")])
_OLD = 4  # the size byte of the first number; files of the present format begin with a token


def load_const_arpa(path: str | os.PathLike[str]) -> ConstArpa:
    """Maps a file without reading its n-grams. Raises ModelFormatError for a file of another kind, or cut off."""
    return read_const_arpa(Reader.open(path))


def read_const_arpa(reader: Reader) -> ConstArpa:
    """Reads a model to the end of the data; arrays of the present format are views of the data."""
    if not reader.binary:
        raise reader.error("expected a const-arpa model, always binary, such as arpa-to-const-arpa makes")
    numbers: list[int] = []
    is_old = reader.raw_byte_peek() == _OLD
    try:
        if not is_old:
            reader.expect("<ConstArpaLm>")
            reader.expect("<LmInfo>")
        numbers += [reader.int32() for _ in range(4)]
        arrays = _read_old(reader) if is_old else _read_present(reader)
        if reader.left:
            raise reader.error("the file should end here, but goes on")
    except ModelFormatError as error:
        raise ModelFormatError(
            f"no const-arpa model, or a damaged one: {error.message}", error.source, error.place
        ) from None
    bos, eos, unk, order = numbers
    states, unigrams, overflow = arrays
    return ConstArpa(bos, eos, unk, order, states, unigrams, overflow, reader.source)


def write_const_arpa(model: ConstArpa, writer: Writer) -> None:
    """Writes a model behind the header of a binary file."""
    if not writer.binary:
        raise ArgumentError("const-arpa models are always written in binary")
    _tokens(writer, "<ConstArpaLm>", "<LmInfo>")
    for number in (model.bos, model.eos, model.unk, model.order):
        writer.int32(number)
    _tokens(writer, "</LmInfo>", "<LmStates>")
    writer.raw(np.array([(8, len(model.states))], _TAGGED_LONG).tobytes())
    writer.raw(model.states.astype("<i4", copy=False).tobytes())
    _tokens(writer, "</LmStates>", "<LmUnigram>")
    writer.int32(len(model.unigrams))
    writer.raw(model.unigrams.astype("<i8", copy=False).tobytes())
    _tokens(writer, "</LmUnigram>", "<LmOverflow>")
    writer.int32(len(model.overflow))
    writer.raw(model.overflow.astype("<i8", copy=False).tobytes())
    _tokens(writer, "</LmOverflow>", "</ConstArpaLm>")


def _tokens(writer: Writer, *tokens: str) -> None:
    for token in tokens:
        writer.token(token)


def _read_present(reader: Reader) -> list[npt.NDArray[Any]]:
    reader.expect("</LmInfo>")
    reader.expect("<LmStates>")
    arrays = [reader.raw_array(_long(reader), "<i4", "the states")]
    for end, begin in (("</LmStates>", "<LmUnigram>"), ("</LmUnigram>", "<LmOverflow>")):
        reader.expect(end)
        reader.expect(begin)
        arrays.append(reader.raw_array(reader.size(begin), "<i8", begin))
    reader.expect("</LmOverflow>")
    reader.expect("</ConstArpaLm>")
    return arrays


def _long(reader: Reader) -> int:
    """Reads a count of 64 bits."""
    found = reader.raw_array(1, _TAGGED_LONG, "the number of states")[0]
    if found["size"] != 8 or found["value"] < 0:
        raise reader.error_at(reader.position - _TAGGED_LONG.itemsize, "expected a number of states, of 64 bits")
    return int(found["value"])


def _read_old(reader: Reader) -> list[npt.NDArray[Any]]:
    """Reads arrays whose numbers have size bytes, as copies."""
    arrays = []
    for dtype in (TAGGED, _TAGGED_LONG, _TAGGED_LONG):
        found = reader.raw_array(reader.size("an array"), dtype, "an array")
        if (found["size"] != dtype.itemsize - 1).any():
            raise reader.error("expected numbers of equal sizes")
        arrays.append(np.ascontiguousarray(found["value"]))
    return arrays
