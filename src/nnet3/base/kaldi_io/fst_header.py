"""The header of OpenFst's binary files, with the symbol tables behind it.

All integers are little-endian and raw, without the size bytes that Kaldi puts before numbers.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.symbols import SymbolTable, read_symbols, symbol_bytes, take
from nnet3.base.kaldi_io.writer import Writer

MAGIC = struct.pack("<i", 2125659606)
VECTOR, COMPACT, CONST, LOOKAHEAD, NGRAM = "vector", "compact_acceptor", "const", "olabel_lookahead", "ngram"
STANDARD = "standard"
_VERSIONS = {VECTOR: (2,), LOOKAHEAD: (1,), NGRAM: (4,)}  # by type
_TABLE_VERSIONS = (2, 1)  # of types that are tables; 1 is the aligned form
_ALIGNED_VERSION = 1
_HAS_INPUT, _HAS_OUTPUT, _IS_ALIGNED = 1, 2, 4
_ALIGNMENT = 16
_MOST_NAME_BYTES = 256
_BLOCK = 1 << 16  # bytes that are compared at a time, without much memory
_NAME_LENGTH = struct.Struct("<i")
_END = struct.Struct("<iiQqqq")  # version, flags, properties, start, states, arcs


@dataclass(frozen=True)
class FstHeader:
    """The fields before the states of an FST."""

    kind: str
    arc_type: str
    version: int
    flags: int
    properties: int
    start: int
    states: int
    arcs: int
    input_symbols: SymbolTable | None = None
    output_symbols: SymbolTable | None = None

    def align(self, reader: Reader) -> None:
        """Skips to where the next table begins: a multiple of 16 bytes in aligned files, else here."""
        if self.version == _ALIGNED_VERSION or self.flags & _IS_ALIGNED:
            take(reader, -reader.position % _ALIGNMENT, "an aligned FST")


def read_fst_header(reader: Reader, kinds: tuple[str, ...], arc_types: tuple[str, ...] = (STANDARD,)) -> FstHeader:
    """Reads the header at the reader's position. ModelFormatError for a type outside `kinds` or `arc_types`."""
    start = reader.position
    reader.need(len(MAGIC), "the header of an FST")
    if reader.data[start : start + len(MAGIC)] != MAGIC:
        raise reader.error("expected an FST in OpenFst's binary form, which begins with the bytes d6 fd b2 7e")
    reader.position += len(MAGIC)
    kind, arc_type = _read_name(reader), _read_name(reader)
    if kind not in kinds:
        hint = f"fstconvert --fst_type={VECTOR} makes one of an FST of another type"
        raise reader.error_at(start, f"expected an FST of type {' or '.join(kinds)}, got '{kind}'; {hint}")
    if arc_type not in arc_types:
        raise reader.error_at(start, f"expected an FST with arcs of type {' or '.join(arc_types)}, got '{arc_type}'")
    version, flags, properties, first, states, arcs = _END.unpack(take(reader, _END.size, "the header of an FST"))
    versions = _VERSIONS.get(kind, _TABLE_VERSIONS)
    if version not in versions:
        raise reader.error_at(start, f"expected version {versions[0]} of an FST of type {kind}, got {version}")
    if not 0 <= states < 2**31:
        raise reader.error_at(start, f"an FST cannot have {states} states")
    input_symbols, output_symbols = _read_tables(reader, bool(flags & _HAS_INPUT), bool(flags & _HAS_OUTPUT))
    return FstHeader(kind, arc_type, version, flags, properties, first, states, arcs, input_symbols, output_symbols)


def _read_tables(reader: Reader, of_input: bool, of_output: bool) -> tuple[SymbolTable | None, SymbolTable | None]:
    start = reader.position
    first = read_symbols(reader) if of_input else None
    if not of_output:
        return first, None
    size = reader.position - start
    if first is not None and _is_repeated(reader, start, size):
        reader.position += size
        return first, first
    return first, read_symbols(reader)


def _is_repeated(reader: Reader, start: int, size: int) -> bool:
    """Returns True if so many bytes are followed by the same ones."""
    ranges = ((first, min(first + _BLOCK, start + size)) for first in range(start, start + size, _BLOCK))
    return all(reader.data[first:end] == reader.data[first + size : end + size] for first, end in ranges)


def write_fst_header(
    writer: Writer,
    kind: str,
    properties: int,
    fst: Fst,
    arcs: int,
    arc_type: str = STANDARD,
    symbols: SymbolTable | None = None,
) -> None:
    """Writes the header of an FST, and the symbols of input and output, if any."""
    names = b"".join(_NAME_LENGTH.pack(len(name)) + name.encode() for name in (kind, arc_type))
    version = _VERSIONS.get(kind, _TABLE_VERSIONS)[0]
    flags = 0 if symbols is None else _HAS_INPUT | _HAS_OUTPUT
    writer.raw(MAGIC + names + _END.pack(version, flags, properties, fst.start, fst.num_states, arcs))
    if symbols is not None:
        writer.raw(2 * symbol_bytes(symbols))


def _read_name(reader: Reader) -> str:
    what = "the type of an FST"
    (length,) = _NAME_LENGTH.unpack(take(reader, _NAME_LENGTH.size, what))
    if length < 0:
        raise reader.error(f"{what} cannot have {length} bytes")
    if length > _MOST_NAME_BYTES:
        raise reader.error(f"a type of an FST has no name of {length} bytes")
    return take(reader, length, what).decode("utf-8", "replace")
