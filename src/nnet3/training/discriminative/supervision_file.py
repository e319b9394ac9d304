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
from nnet3.training.examples.sequence_target import TargetFormat

_STEPS, _STEP = 255, np.float32(1.0 / 255.0)  # weights are written as bytes
_DIGITS = 7  # of costs in text, one more than in tables of lattices
_BYTES = struct.Struct("<Bi")  # what comes before bytes: the size of an element, and how many


def read_supervision(reader: Reader) -> DiscriminativeSupervision:
    """Reads the `<DiscriminativeSupervision>` at the reader's position. Raises ModelFormatError."""
    start = reader.position
    reader.expect("<DiscriminativeSupervision>")
    weight = reader.after("<Weight>").real()
    sequences = reader.after("<NumSequences>").int32()
    frames = reader.after("<FramesPerSeq>").int32()
    alignment = reader.after("<NumAli>").int_vector()
    reader.expect("<DenLat>")
    lattice = read_lattice(reader).plain()
    reader.expect("</DiscriminativeSupervision>")
    try:
        return DiscriminativeSupervision(weight, sequences, frames, alignment, lattice)
    except ModelFormatError as error:
        raise reader.error_at(start, error.message) from None


def write_supervision(writer: Writer, supervision: DiscriminativeSupervision) -> None:
    """Writes a supervision, its lattice in topological order. Raises ModelFormatError for a cycle."""
    writer.token("<DiscriminativeSupervision>")
    writer.token("<Weight>").real(supervision.weight)
    writer.token("<NumSequences>").int32(supervision.num_sequences)
    writer.token("<FramesPerSeq>").int32(supervision.frames_per_sequence)
    writer.token("<NumAli>").int_vector(supervision.alignment)
    writer.token("<DenLat>")
    write_lattice(writer, topologically_sorted(supervision.lattice), _DIGITS)
    writer.token("</DiscriminativeSupervision>")


def _read_weights(reader: Reader) -> np.ndarray:
    weights = reader.after("<DW>")
    return weights.int_vector(np.uint8) * _STEP if weights.binary else weights.vector()


def _write_weights(writer: Writer, weights: np.ndarray) -> None:
    """In binary form weights become multiples of 1 / 255."""
    writer.token("<DW>")
    if writer.binary:
        steps = (_STEPS * weights.astype(np.float64) + 0.5).astype(np.uint8)
        writer.raw(_BYTES.pack(1, len(steps)) + steps.tobytes())
    else:
        writer.vector(weights)


TARGETS = TargetFormat(
    *("<NnetDiscriminativeSup>", DiscriminativeTarget, read_supervision, write_supervision),
    *(_read_weights, _write_weights),
)
