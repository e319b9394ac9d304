"""Reads and writes supervisions and targets of chain examples, byte for byte as Kaldi writes them."""

from __future__ import annotations

import numpy as np

from nnet3.base.kaldi_io.fst_file import read_fst, write_acceptor
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ModelFormatError
from nnet3.training.chain.supervision import ChainTarget, Supervision
from nnet3.training.examples.sequence_target import TargetFormat

_STEPS_OF_OLD_WEIGHTS = np.float32(1.0 / 255.0)
_SMALLEST_FST = 12  # bytes: more sequences than that would fit cannot be there


def read_supervision(reader: Reader) -> Supervision:
    """Reads the `<Supervision>` at the reader's position, also from before March 2018. Raises ModelFormatError."""
    start = reader.position
    reader.expect("<Supervision>")
    weight = reader.after("<Weight>").real()
    num_sequences, frames, labels = (
        _read_size(reader, token) for token in ("<NumSequences>", "<FramesPerSeq>", "<LabelDim>")
    )
    end_to_end = _read_end_to_end(reader)
    if end_to_end:
        reader.expect("<Fsts>")
        if not 0 < num_sequences * _SMALLEST_FST <= reader.left:
            raise reader.error(
                f"a supervision of {num_sequences} sequences does not fit into the {reader.left} bytes left"
            )
        fsts = tuple(read_fst(reader) for _ in range(num_sequences))
        reader.expect("</Fsts>")
    else:
        fsts = (read_fst(reader),)
    alignment = reader.int_vector() if reader.accept("<AlignmentPdfs>") else np.zeros(0, np.int32)
    reader.expect("</Supervision>")
    try:
        return Supervision(weight, num_sequences, frames, labels, fsts, end_to_end, alignment)
    except ModelFormatError as error:
        raise reader.error_at(start, error.message) from None


def _read_size(reader: Reader, token: str) -> int:
    return reader.after(token).int32()


def _read_end_to_end(reader: Reader) -> bool:
    """Reads the flag; old files have no such token, and the FST follows."""
    if reader.binary and reader.raw_byte_peek() != ord("<"):
        return False
    return reader.accept("<End2End>") and reader.boolean()


def write_supervision(writer: Writer, supervision: Supervision) -> None:
    writer.token("<Supervision>")
    writer.token("<Weight>").real(supervision.weight)
    for token, size in (
        ("<NumSequences>", supervision.num_sequences),
        ("<FramesPerSeq>", supervision.frames_per_sequence),
        ("<LabelDim>", supervision.label_dim),
    ):
        writer.token(token).int32(size)
    writer.token("<End2End>").boolean(supervision.end_to_end)
    if supervision.end_to_end:
        writer.token("<Fsts>")
    for fst in supervision.fsts:
        write_acceptor(writer, fst)
    if supervision.end_to_end:
        writer.token("</Fsts>")
    if len(supervision.alignment_pdfs):
        writer.token("<AlignmentPdfs>").int_vector(supervision.alignment_pdfs)
    writer.token("</Supervision>")


def _read_weights(reader: Reader) -> np.ndarray:
    """Reads weights in any form, also none."""
    if reader.accept("<DW2>"):
        return reader.vector()
    if reader.accept("<DW>"):
        return reader.int_vector(np.uint8) * _STEPS_OF_OLD_WEIGHTS if reader.binary else reader.vector()
    return np.zeros(0, np.float32)


def _write_weights(writer: Writer, weights: np.ndarray) -> None:
    writer.token("<DW2>").vector(weights)


TARGETS = TargetFormat(
    "<NnetChainSup>", ChainTarget, read_supervision, write_supervision, _read_weights, _write_weights
)
