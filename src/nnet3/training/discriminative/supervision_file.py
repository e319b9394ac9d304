"""Reads and writes supervisions and targets of discriminative examples, as Kaldi writes them."""

from __future__ import annotations

import struct

import numpy as np

from nnet3.base.kaldi_io.lattice import read_lattice
from nnet3.base.kaldi_io.lattice_file import write_lattice
from nnet3.base.kaldi_io.lattice_states import topologically_sorted
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ModelFormatError
from nnet3.training.discriminative.supervision import DiscriminativeSupervision, DiscriminativeTarget

_STEPS, _STEP = 255, np.float32(1.0 / 255.0)  # weights are written as bytes
_DIGITS = 7  # of costs in text, one more than in tables of lattices
_BYTES = struct.Struct("<Bi")  # what comes before bytes: the size of an element, and how many


def read_supervision(reader: Reader) -> DiscriminativeSupervision:
    """Reads the `<DiscriminativeSupervision>` at the reader's position. Raises ModelFormatError."""
    start = reader.position
    reader.expect("<DiscriminativeSupervision>")
    reader.expect("<Weight>")
    weight = reader.real()
    reader.expect("<NumSequences>")
    sequences = reader.int32()
    reader.expect("<FramesPerSeq>")
    frames = reader.int32()
    reader.expect("<NumAli>")
    alignment = reader.int_vector()
    reader.expect("<DenLat>")
    lattice = read_lattice(reader).plain()
    reader.expect("</DiscriminativeSupervision>")
    try:
        return DiscriminativeSupervision(weight, sequences, frames, alignment, lattice)
    except ModelFormatError as error:
        raise reader.error_at(start, error.message) from None


def write_supervision(writer: Writer, supervision: DiscriminativeSupervision) -> None:
    """Writes it with the states of its lattice in topological order. Raises ModelFormatError for a cycle."""
    writer.token("<DiscriminativeSupervision>")
    writer.token("<Weight>")
    writer.real(supervision.weight)
    writer.token("<NumSequences>")
    writer.int32(supervision.num_sequences)
    writer.token("<FramesPerSeq>")
    writer.int32(supervision.frames_per_sequence)
    writer.token("<NumAli>")
    writer.int_vector(supervision.alignment)
    writer.token("<DenLat>")
    write_lattice(writer, topologically_sorted(supervision.lattice), _DIGITS)
    writer.token("</DiscriminativeSupervision>")


def read_target(reader: Reader) -> DiscriminativeTarget:
    """Reads the `<NnetDiscriminativeSup>` at the reader's position. Raises ModelFormatError."""
    start = reader.position
    reader.expect("<NnetDiscriminativeSup>")
    name = reader.token()
    indexes = reader.index_vector()
    supervision = read_supervision(reader)
    reader.expect("<DW>")
    weights = reader.int_vector(np.uint8) * _STEP if reader.binary else reader.vector()
    reader.expect("</NnetDiscriminativeSup>")
    try:
        return DiscriminativeTarget(name, indexes, supervision, weights)
    except ModelFormatError as error:
        raise reader.error_at(start, error.message) from None


def write_target(writer: Writer, target: DiscriminativeTarget) -> None:
    """Writes what `read_target` reads; in binary form weights become multiples of 1 / 255."""
    writer.token("<NnetDiscriminativeSup>")
    writer.token(target.name)
    writer.index_vector(target.indexes)
    write_supervision(writer, target.supervision)
    writer.token("<DW>")
    if writer.binary:
        steps = (_STEPS * target.deriv_weights.astype(np.float64) + 0.5).astype(np.uint8)
        writer.raw(_BYTES.pack(1, len(steps)) + steps.tobytes())
    else:
        writer.vector(target.deriv_weights)
    writer.token("</NnetDiscriminativeSup>")
