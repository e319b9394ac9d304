"""Clients of a port: partial results, pauses, ends, timeouts, and clients that go away."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from nnet3.asr import Model
from nnet3.errors import ArgumentError, NumericalError
from nnet3.options import EndpointRule, LatticeOptions, SilenceWeightingOptions, TcpOptions
from nnet3.speech.asr.online_decoder import OnlineDecoder, OnlineStream
from nnet3.speech.asr.tcp_server import TcpServer
from nnet3.speech.search.endpoints import Endpointing
from nnet3.speech.search.utterance_decoder import UtteranceDecoder, UtteranceSearch
from tests.asr.small_model import SILENCE
from tests.asr.small_recognizer import RATE, audio, write_recognizer
from tests.patience import PATIENCE

SOUND = np.concatenate([audio(1.5), np.zeros(RATE, "<i2"), audio(1.1)])
WORDS = {1: "high", 2: "low"}
OPTIONS = TcpOptions(samp_freq=RATE, chunk_length=0.1, output_period=0.5, port_num=0)
RULE = EndpointRule(min_trailing_silence=0.3)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> OnlineDecoder:
    model = Model(write_recognizer(tmp_path_factory.mktemp("models") / "model"))
    options = model.front.decoding
    utterances = UtteranceDecoder(model.transition_model, options, LatticeOptions(), 1.0, allow_partial=True)
    begin: Callable[[], UtteranceSearch] = partial(UtteranceSearch, utterances, model.graph.search)
    weighting = SilenceWeightingOptions(SILENCE, 0.001)
    front = replace(model.front, silence_weighting=weighting)
    return OnlineDecoder(front, begin, 0.1, Endpointing({"rule": RULE}), SILENCE)


@contextmanager
def serving(decoder: OnlineDecoder, options: TcpOptions = OPTIONS, clients: int = 1) -> Iterator[socket.socket]:
    """A connection to a server that hears so many clients."""

    def serve() -> None:
        for _ in range(clients):
            server.serve_client()

    with TcpServer(decoder, WORDS, options) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as client:
            yield client
        for _ in range(clients - 1):
            socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE).close()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def _answer(client: socket.socket, contents: bytes) -> str:
    client.sendall(contents)
    client.shutdown(socket.SHUT_WR)
    return b"".join(iter(partial(client.recv, 4096), b"")).decode()


def _expected(decoder: OnlineDecoder) -> tuple[str, list[int]]:
    """The answer to SOUND, by a stream of our own, and the rows of its segments."""
    text, rows, due = "", list[int](), 4000

    def spoken(use_final: bool) -> str:
        path = stream.hearing.search.best_path(use_final)
        return "" if path is None else "".join(f"{WORDS[label]} " for label in path.words.tolist())

    with OnlineStream(decoder, RATE) as stream:
        for first in range(0, len(SOUND), 800):
            stream.accept(SOUND[first : first + 800].astype(np.float32))
            if first + 800 > due:
                due += 4000
                text += spoken(False) + "\r" if stream.num_rows else ""
            if stream.has_paused():
                text += spoken(True) + "\n"
                rows.append(stream.num_rows)
                stream.begin_segment()
        stream.accept(np.zeros(0, np.float32), is_last=True)
        rows.append(stream.num_rows)
        return text + (spoken(True) if stream.num_rows else "") + "\n", rows


def test_lines_come_back_at_pauses_and_partial_ones_between(decoder: OnlineDecoder) -> None:
    expected, rows = _expected(decoder)
    assert expected.count("\n") == len(rows) >= 2
    assert expected.count("\r") >= 4
    for at_once in (1, 999, 1 << 20):
        with serving(decoder) as client:
            contents = SOUND.tobytes()
            for first in range(0, min(len(contents), 20 * at_once), at_once):
                client.sendall(contents[first : first + at_once])
            assert _answer(client, contents[20 * at_once :]) == expected


def test_times_come_before_texts(decoder: OnlineDecoder) -> None:
    expected, rows = _expected(decoder)
    with serving(decoder, replace(OPTIONS, produce_time=True)) as client:
        lines = _answer(client, SOUND.tobytes()).split("\n")
    ends = np.cumsum(rows)
    for line, plain, first, end in zip(lines, expected.split("\n"), [0, *ends], ends, strict=False):
        whole = line.split("\r")[-1]
        if end > first:
            assert whole == f"{0.03 * first:.2f} {0.03 * end:.2f} {plain.split(chr(13))[-1]}"
        else:
            assert whole == ""


@pytest.mark.parametrize("contents", [b"", b"\1", b"\1\2" * 10])
def test_audio_too_short_for_a_row_gives_an_empty_line(decoder: OnlineDecoder, contents: bytes) -> None:
    with serving(decoder) as client:
        assert _answer(client, contents) == "\n"


def test_a_client_that_is_silent_for_too_long_gets_its_line(
    decoder: OnlineDecoder, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(decoder, replace(OPTIONS, read_timeout=0)) as client:
        answer = b"".join(iter(partial(client.recv, 4096), b""))
    assert answer.endswith(b"\n")
    assert "no audio came for 0 s" in caplog.text


def test_clients_go_and_come(decoder: OnlineDecoder) -> None:
    """One closes at once, with answers unread; the next are heard by the same computer."""
    with serving(decoder, clients=3) as client:
        client.sendall(SOUND.tobytes())
        client.close()


def test_a_failure_ends_one_client(
    decoder: OnlineDecoder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(stream: OnlineStream, piece: np.ndarray, is_last: bool = False) -> None:
        raise NumericalError("scores are not finite")

    with monkeypatch.context() as patch:
        patch.setattr(OnlineStream, "accept", failing)
        with serving(decoder) as client:
            assert _answer(client, b"") == ""
    assert "not heard to its end: scores are not finite" in caplog.text
    with serving(decoder) as client:
        assert _answer(client, b"") == "\n"


def test_a_word_without_a_name(decoder: OnlineDecoder, caplog: pytest.LogCaptureFixture) -> None:
    with TcpServer(decoder, {}, OPTIONS) as server:
        thread = threading.Thread(target=server.serve_client)
        thread.start()
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as client:
            assert "<#0> " in _answer(client, SOUND.tobytes())
        thread.join(PATIENCE)
    assert "the symbol table has no word for" in caplog.text


def test_a_port_in_use(decoder: OnlineDecoder) -> None:
    with TcpServer(decoder, WORDS, OPTIONS) as server, pytest.raises(ArgumentError, match="give another --port-num"):
        TcpServer(decoder, WORDS, replace(OPTIONS, port_num=server.port))
