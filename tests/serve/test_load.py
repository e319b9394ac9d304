"""Load: clients who go away, stall, talk nonsense or say too much, while others are heard to the last word."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from nnet3.asr import Model, Recognizer
from nnet3.options import ServeOptions
from nnet3.serve import Server
from tests.asr.small_recognizer import PIECE, RATE, audio, write_recognizer
from tests.effort import nightly
from tests.patience import PATIENCE
from tests.serve.talk import CONFIG, EOF, alone, ask, closed, connected, told

AUDIO = audio(3.0)
RESET = '{"reset" : 1}'
GOOD, MOST, MOST_BYTES = 4, 10, 1 << 16
ROUNDS, RECORDINGS = 3, 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(write_recognizer(tmp_path_factory.mktemp("model") / "small"))


def parts_of(number: int) -> list[np.ndarray]:
    """Returns the recording as one client cuts it."""
    step = PIECE * (number + 1) // 2
    return np.split(AUDIO, range(step, len(AUDIO), step))


def expected(model: Model, number: int) -> list[Any]:
    """Returns all answers to the recording, said again and again, each time as a new stream."""
    recognizer = Recognizer(model, RATE)
    recognizer.SetWords(True)
    answers = []
    for _ in range(RECORDINGS):
        for part in parts_of(number):
            answers.append(recognizer.Result() if recognizer.accept(part) else recognizer.PartialResult())
        answers.append(recognizer.FinalResult())
    return [json.loads(each) for each in answers]


def talk(client: ClientConnection, number: int) -> None:
    """Sends all recordings without a pause."""
    client.send(CONFIG)
    for time in range(RECORDINGS):
        for part in parts_of(number):
            client.send(part.tobytes())
        client.send(RESET if time < RECORDINGS - 1 else EOF)


# ---- rude clients: each returns how the server ends it ----


def vanish(client: ClientConnection) -> int:
    """Goes without a word within a message, while another one is being heard."""
    client.send(AUDIO.tobytes())
    _begin_message(client)
    client.socket.shutdown(socket.SHUT_RDWR)
    return 1006


def hang_up(client: ClientConnection) -> int:
    """Closes the connection without waiting for what it has said."""
    for part in parts_of(0):
        client.send(part.tobytes())
    client.close()
    return 1006


def stall(client: ClientConnection) -> int:
    """Says half, then nothing; what was said comes back."""
    first = ask(client, AUDIO[: len(AUDIO) // 2].tobytes())
    answers, code, reason = closed(client)
    assert (code, reason) == (1008, "nothing was said for 3 s")
    said = [first, *answers]
    assert len(said) == 2
    assert "text" in said[1]
    return code


def stall_in_a_message(client: ClientConnection) -> int:
    _begin_message(client)
    answers, code, _ = closed(client)
    assert answers == [{"text": ""}]
    return code


def talk_nonsense(client: ClientConnection) -> int:
    client.send("\x00nonsense\ud7ff")
    answers, code, _ = closed(client)
    assert answers[0]["error"].startswith("a text message is ")
    return code


def break_the_protocol(client: ClientConnection) -> int:
    """A frame with an operation that there is not."""
    client.socket.sendall(bytes([0x8B, 0x80]) + bytes(4))
    return closed(client)[1]


def say_too_much(client: ClientConnection) -> int:
    with contextlib.suppress(ConnectionClosed):
        client.send(bytes(MOST_BYTES + 1))
    return closed(client)[1]


def make_noise(client: ClientConnection) -> int:
    """Bytes that are no recording, an odd number of them, are heard as well as they can be."""
    for count in (4001, 0, 1, 3998):
        assert ask(client, os.urandom(count)).keys() <= {"partial", "text", "result"}
    assert "text" in ask(client, EOF)
    return closed(client)[1]


def _begin_message(client: ClientConnection) -> None:
    """Sends the head of a binary message of 60,000 bytes, and 5 of them."""
    client.socket.sendall(bytes([0x82, 0xFE]) + struct.pack(">H", 60_000) + bytes(4) + bytes(5))


RUDE: dict[Callable[[ClientConnection], int], int] = {
    vanish: 1006,
    hang_up: 1006,
    stall: 1008,
    stall_in_a_message: 1008,
    talk_nonsense: 1007,
    break_the_protocol: 1002,
    say_too_much: 1009,
    make_noise: 1000,
}


def let_in(server: Server, clients: ExitStack) -> ClientConnection | None:
    """Returns a connection that has had an answer; None if the server says that there are too many."""
    try:
        client = clients.enter_context(connected(server))
        client.send(CONFIG)
        ask(client, b"")
    except InvalidStatus as refusal:
        if refusal.response.status_code == 503 and "Retry-After" in refusal.response.headers:
            return None
        raise
    except ConnectionClosed as end:
        if end.rcvd is not None and end.rcvd.code == 1013:  # of two who came at the same time
            return None
        raise
    return client


def crowd(server: Server) -> None:
    """Comes with more and more clients until one is refused."""
    with ExitStack() as clients:
        while let_in(server, clients):
            pass


def knock(server: Server) -> None:
    """Opens connections that never become one: silence, and what is no request."""
    with (
        socket.create_connection(server.address, PATIENCE),
        socket.create_connection(server.address, PATIENCE) as other,
    ):
        other.sendall(b"\x16\x03\x01nonsense\r\n\r\n" * 9)
        with contextlib.suppress(ConnectionResetError):
            while other.recv(1 << 12):
                pass


@nightly
def test_rude_clients_take_no_word_from_others(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rude client comes some times, as soon as it is let in; four others are heard all the while."""
    monkeypatch.setattr("nnet3.speech.serve.server._CLOSE_SECONDS", 0.5)
    problems: list[BaseException] = []
    lines: list[str] = []

    def rude(behave: Callable[[ClientConnection], int]) -> None:
        left = 1 if "stall" in behave.__name__ else ROUNDS
        while left:
            with ExitStack() as place:
                if client := let_in(server, place):
                    assert behave(client) == RUDE[behave]
                    left -= 1

    def guarded(function: Callable[..., None], *arguments: Any) -> threading.Thread:
        def run() -> None:
            try:
                function(*arguments)
            except BaseException as problem:
                problems.append(problem)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    options = ServeOptions(port=0, max_connections=MOST, max_message=MOST_BYTES, max_queue=2, idle_seconds=3)
    with Server(model, options, lines.append) as server, ExitStack() as clients:
        good = [clients.enter_context(connected(server)) for _ in range(GOOD)]
        threads = [guarded(talk, client, number) for number, client in enumerate(good)]
        threads += [guarded(rude, behave) for behave in RUDE]
        threads += [guarded(crowd, server), guarded(knock, server)]
        for number, client in enumerate(good):
            assert closed(client) == (expected(model, number), 1000, "all was said")
        for thread in threads:
            thread.join(PATIENCE)
        assert not problems
        while server.health()["connections"]:
            pass
        assert server.health()["status"] == "ok"
        assert told(server, parts_of(0)) == alone(model, parts_of(0))
        with urllib.request.urlopen("http://{}:{}/metrics".format(*server.address), timeout=PATIENCE) as page:
            metrics = page.read().decode().splitlines()
    ends = Counter(int(line.partition("closed with ")[2][:4]) for line in lines)
    assert (ends[1000], ends[1007]) == (GOOD + ROUNDS + 1, ROUNDS)
    assert ends[1008] >= 2, "the crowd may have been idle as well"
    assert f'nnet3_closed_total{{code="1007"}} {ROUNDS}.0' in metrics
    assert "nnet3_refused_total 0.0" not in metrics
