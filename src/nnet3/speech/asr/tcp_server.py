"""TcpServer: hears audio that one client at a time sends as it is, and answers with lines of words.

The protocol is that of Kaldi's online2-tcp-nnet3-decode-faster: integers of 16 bits in the order of the machine come;
the best words up to now go back followed by a carriage return, those of a segment by a newline (rescoring.md 10).
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Mapping

import numpy as np

from nnet3.base.options.online import TcpOptions
from nnet3.errors import ArgumentError, Nnet3Error
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.asr.online_decoder import OnlineDecoder, OnlineStream
from nnet3.speech.features.audio import Samples, samples_at_once

_LOG = logging.getLogger("nnet3")
_HOST = "127.0.0.1"
_SAMPLE = np.dtype("=i2")
_NOTHING = np.zeros(0, np.float32)


class TcpServer:
    """Listens at a port of the loopback address. Raises ArgumentError if the port cannot be had.

    `words` are by label. `seconds_per_row` is the time between rows of the search, for `produce_time`.
    """

    def __init__(
        self, decoder: OnlineDecoder, words: Mapping[int, str], options: TcpOptions, seconds_per_row: float = 0.03
    ):
        self._decoder, self._words, self._options = decoder, words, options
        self._seconds_per_row = np.float32(seconds_per_row)
        try:
            self._listener = socket.create_server((_HOST, options.port_num), backlog=1)
        except OSError as error:
            raise ArgumentError(
                f"cannot listen at port {options.port_num} of {_HOST}: {error.strerror}: give another --port-num"
            ) from None

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def close(self) -> None:
        self._listener.close()

    def __enter__(self) -> TcpServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def serve_client(self) -> None:
        """Waits for a client and hears it to the end of its audio. A client's mistake or loss is a warning."""
        connection, (host, _) = self._listener.accept()
        _LOG.info("accepted a connection from %s", host)
        with connection:
            timeout = self._options.read_timeout
            connection.settimeout(None if timeout < 0 else timeout)
            try:
                _Client(connection, self._decoder, self._words, self._options, self._seconds_per_row).hear()
            except Nnet3Error as error:
                _LOG.warning("a client was not heard to its end: %s", error)


class _Client:
    """A client's connection, and the stream of its audio."""

    def __init__(
        self,
        connection: socket.socket,
        decoder: OnlineDecoder,
        words: Mapping[int, str],
        options: TcpOptions,
        seconds_per_row: np.float32,
    ):
        self._connection, self._decoder, self._words, self._options = connection, decoder, words, options
        self._seconds_per_row, self._first_row = seconds_per_row, 0

    def hear(self) -> None:
        """Decodes all that comes, and answers."""
        rate = self._options.samp_freq
        size, period = (samples_at_once(rate, s) for s in (self._options.chunk_length, self._options.output_period))
        heard, due = 0, period
        with OnlineStream(self._decoder, rate) as stream:
            while (piece := self._read(size)) is not None:
                stream.accept(piece)
                heard += size  # as if all chunks were full, as Kaldi counts
                if heard > due:
                    due += period
                    if stream.num_rows:
                        self._send(self._text(stream, is_end=False) + "\r")
                if stream.has_paused():
                    self._send(self._text(stream) + "\n")
                    self._first_row += stream.num_rows
                    stream.begin_segment()
            stream.accept(_NOTHING, is_last=True)
            self._send((self._text(stream) if stream.num_rows else "") + "\n")

    def _read(self, count: int) -> Samples | None:
        """Returns `count` samples (count,), fewer if no more come in time, None if none come."""
        contents = bytearray()
        try:
            while len(contents) < count * _SAMPLE.itemsize:
                more = self._connection.recv(count * _SAMPLE.itemsize - len(contents))
                if not more:
                    break
                contents += more
        except (TimeoutError, BlockingIOError):
            _LOG.warning("no audio came for %d s", self._options.read_timeout)
        except OSError as error:
            _LOG.warning("the client has gone: %s", error.strerror)
        whole = contents[: len(contents) - len(contents) % _SAMPLE.itemsize]
        return np.frombuffer(whole, _SAMPLE).astype(np.float32) if whole else None

    def _send(self, text: str) -> None:
        with contextlib.suppress(OSError):  # who has gone is noticed at the next reading
            self._connection.sendall(text.encode("utf-8", "surrogateescape"))

    def _text(self, stream: OnlineStream, is_end: bool = True) -> str:
        """Returns the best words of the segment, each followed by a blank, and the segment's times if wanted."""
        path = stream.hearing.search.best_path(use_final=is_end)
        text = "" if path is None else self._spoken(path.words)
        if not self._options.produce_time:
            return text
        begin, end = (np.float32(row) * self._seconds_per_row for row in self._rows_of(stream))
        return f"{begin:.2f} {end:.2f} {text}"

    def _rows_of(self, stream: OnlineStream) -> tuple[int, int]:
        """Returns the first row of the segment, and the row behind it."""
        return self._first_row, self._first_row + stream.num_rows

    def _spoken(self, labels: Integers) -> str:
        unknown = [label for label in labels.tolist() if label not in self._words]
        if unknown:
            _LOG.warning("the symbol table has no word for %s", ", ".join(map(str, unknown)))
        numbered = enumerate(labels.tolist())
        return "".join(f"{self._words.get(label, f'<#{position}>')} " for position, label in numbered)
