"""Tables of recordings as Kaldi's programs take and write them: WAV files of 16 bits, whole in memory."""

from __future__ import annotations

import logging
import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.table_values import TableKind
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ModelFormatError
from nnet3.speech.features.audio import Samples
from nnet3.speech.features.wav_file import WavFormat, WavHeader, read_header

_LOG = logging.getLogger("nnet3")
_INTEGERS, _BITS, _WIDTH = 1, 16, 2
_HEADER_BYTES = 36  # of a plain file, behind its first 8 and before its samples


@dataclass(frozen=True, eq=False)
class WaveData:
    """A recording: samples per second, and samples (samples, channels) int16."""

    rate: int
    samples: npt.NDArray[np.int16]

    @classmethod
    def of(cls, rate: int, samples: npt.NDArray[np.float32]) -> WaveData:
        """Rounds samples (samples, channels) towards 0 and clips them to 16 bits; warns of clipped samples."""
        whole = np.clip(np.trunc(samples), -(1 << 15), (1 << 15) - 1)
        clipped = int((np.abs(np.trunc(samples) - whole) > 0).sum())
        if clipped:
            _LOG.warning("%d of %d samples are beyond 16 bits, and were cut: reduce the volume", clipped, whole.size)
        return cls(rate, whole.astype(np.int16))

    def channel(self, number: int) -> Samples:
        """Returns a channel, (samples,) float32."""
        return self.samples[:, number].astype(np.float32)


def read_wave(reader: Reader) -> WaveData:
    """Reads a file or an entry of a table by the rules of Kaldi's reader (rescoring.md 11), with its warnings.

    Raises ModelFormatError for anything but PCM of 16 bits, and for a file without samples.
    """
    reader.binary = True  # errors say at which byte
    start, rest = reader.position, _Rest(reader)
    header = read_header(rest, may_pad=False)
    if header is None:
        raise reader.error_at(
            start,
            "expected a WAV file: RIFF or RIFX, WAVE, a chunk 'fmt ' and a chunk 'data', without padding bytes between "
            "chunks",
        )
    if fault := _fault(header.format):
        raise reader.error_at(start, f"expected a WAV file of PCM with 16 bits, {fault}")
    _warn_of_size(reader.source, header)
    format = header.format
    wanted = reader.left if header.size is None else header.size - header.size % format.block
    contents = rest.read(wanted)
    reader.ran_out |= header.size is None
    if not contents:
        raise reader.error_at(start, "this WAV file has no samples")
    if len(contents) < wanted:
        _LOG.warning("%s: the file is cut: %d of %d bytes of samples are there", reader.source, len(contents), wanted)
    whole = contents[: len(contents) - len(contents) % format.block]
    samples = np.frombuffer(whole, f"{format.order}i2").reshape(-1, format.channels)
    return WaveData(format.rate, samples.astype(np.int16))


def write_wave(writer: Writer, wave: WaveData) -> None:
    """Writes a plain WAV file. Raises ModelFormatError for a recording without channels."""
    frames, channels = wave.samples.shape
    if channels == 0:
        raise ModelFormatError("cannot write a recording without channels")
    size, block = _WIDTH * frames * channels, _WIDTH * channels
    format = struct.pack("<HHIIHH", _INTEGERS, channels, wave.rate, wave.rate * block, block, _BITS)
    writer.raw(
        b"RIFF" + struct.pack("<I", _HEADER_BYTES + size) + b"WAVEfmt " + struct.pack("<I", len(format)) + format
    )
    writer.raw(b"data" + struct.pack("<I", size) + wave.samples.astype("<i2").tobytes())


def _fault(format: WavFormat) -> str:
    """Returns what keeps Kaldi's reader from a file; "" for nothing."""
    if format.tag != _INTEGERS:
        return f"got format {format.tag}"
    if format.bits != _BITS:
        return f"got {format.bits} bits for a sample"
    if format.channels == 0:
        return "got none of its channels"
    if format.block != _WIDTH * format.channels or format.bytes_per_second != format.rate * format.block:
        return (
            f"got a header that says {format.rate} Hz, {format.channels} channel(s), {format.block} bytes for a "
            f"sample of each and {format.bytes_per_second} bytes a second"
        )
    return ""


def _warn_of_size(source: str, header: WavHeader) -> None:
    if header.size is not None and abs(header.read + header.size - header.said) > 1:
        _LOG.warning(
            "%s: the file says %d bytes, but there should be %d before its samples and %d of them: chunks behind the "
            "samples are not read",
            *(source, header.said, header.read, header.size),
        )


class _Rest:
    """The bytes of a reader in order; a reader whose data end too early has run out."""

    def __init__(self, reader: Reader):
        self._reader = reader

    def read(self, count: int = -1, /) -> bytes:
        reader = self._reader
        taken = reader.left if count < 0 else min(count, reader.left)
        reader.ran_out |= taken < count
        contents = bytes(reader.data[reader.position : reader.position + taken])
        reader.position += taken
        return contents


_WAVES = TableKind(read_wave, write_wave, header=False)
open_wave_table, random_access_waves, wave_writer = _WAVES.open, _WAVES.by_key, _WAVES.writer
