"""Conversations: how each side may end one, and clients who misbehave while others are heard."""

from __future__ import annotations

import contextlib
import gc
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from nnet3.asr import Model
from nnet3.options import ServeOptions
from nnet3.serve import Server
from nnet3.speech.serve import conversation, scheduler, server as server_module
from nnet3.speech.serve.session import Session
from tests.asr.small_recognizer import PIECE, RATE, audio, write_recognizer
from tests.effort import at_night
from tests.patience import PATIENCE
from tests.serve.talk import CONFIG, EOF, alone, answer, ask, closed, connected, told

AUDIO = audio(2.0)
PARTS = np.split(AUDIO, range(PIECE, len(AUDIO), PIECE))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(write_recognizer(tmp_path_factory.mktemp("model") / "small"))


@pytest.fixture(scope="module")
def heard(model: Model) -> list[Any]:
    """What a recognizer of its own answers to PARTS."""
    return alone(model, PARTS)


@contextmanager
def served(model: Model, **options: Any) -> Iterator[tuple[Server, list[str]]]:
    lines: list[str] = []
    given = {"port": 0, "max_connections": 8, "stop_seconds": PATIENCE, "idle_seconds": PATIENCE, **options}
    with Server(model, ServeOptions(**given), lines.append) as server:
        yield server, lines


def test_clients_are_heard_as_if_each_were_alone(model: Model) -> None:
    """Several at a time, with other parts; a reset begins a new stream, and a second one goes on with its times."""
    recordings = [PARTS, [AUDIO], np.split(AUDIO[:9999], 3), [AUDIO[:0], *PARTS[:4]]]
    found: dict[int, list[Any]] = {}
    with served(model) as (server, lines):
        clients = [
            threading.Thread(target=lambda number, parts: found.update({number: told(server, parts)}), args=each)
            for each in enumerate(recordings)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert [found[number] for number in range(4)] == [alone(model, parts) for parts in recordings]
        assert sorted(line.partition(": ")[2] for line in lines) == [
            "0.8 s of audio; closed with 1000, all was said",
            "1.2 s of audio; closed with 1000, all was said",
            "2.0 s of audio; closed with 1000, all was said",
            "2.0 s of audio; closed with 1000, all was said",
        ]
        with connected(server) as client:
            client.send(CONFIG)
            ask(client, AUDIO.tobytes())
            first = ask(client, '{"reset" : 1}')
            ask(client, AUDIO.tobytes())
            again = ask(client, EOF)
            assert closed(client) == ([], 1000, "all was said")
        assert again["text"] == first["text"] == alone(model, [AUDIO])[-1]["text"]
        assert again["result"][0]["start"] == pytest.approx(2 + first["result"][0]["start"], abs=1e-5)


def test_a_client_who_does_not_wait_for_answers_gets_them_all(model: Model, heard: list[Any]) -> None:
    with served(model, max_queue=1) as (server, _), connected(server) as client:
        for message in [CONFIG, *(part.tobytes() for part in PARTS), EOF]:
            client.send(message)
        assert closed(client) == (heard, 1000, "all was said")


@pytest.mark.parametrize(
    ("message", "error", "code"),
    [
        ("nonsense", "a text message is", 1007),
        *at_night(('{"config": {"sample_rate": "x"}}', "sample_rate must be an integer", 1007)),
        ('{"config": {"phrase_list": ["' + "x" * 30_000 + '"]}}', "phrase_list must have at most", 1007),
        *at_night(("x" * 70_000, None, 1009)),
        (b"x" * 70_000, None, 1009),
    ],
)
def test_bad_messages_end_a_conversation_and_no_other(
    model: Model, heard: list[Any], message: Any, error: str, code: int
) -> None:
    with served(model, max_message=1 << 16) as (server, lines), connected(server) as good:
        good.send(CONFIG)
        before = [ask(good, part.tobytes()) for part in PARTS[:5]]
        with connected(server) as bad:
            bad.send(CONFIG)
            ask(bad, PARTS[0].tobytes())
            bad.send(message)
            answers, was, reason = closed(bad)
        assert was == code
        if error is not None:
            assert error in answers[0]["error"]
            assert len(answers) == 1
            assert answers[0]["error"].startswith(reason)
            assert len(str(answers)) < 600
        after = [ask(good, part.tobytes()) for part in PARTS[5:]]
        assert [*before, *after, ask(good, EOF)] == heard
    assert len(lines) == 2


def test_a_client_who_goes_away_leaves_its_place(model: Model, heard: list[Any]) -> None:
    """Without a word, in the middle of a message."""
    with served(model, max_connections=1) as (server, lines):
        with connected(server) as client:
            client.send(CONFIG)
            with pytest.raises(InvalidStatus) as caught:
                connected(server).__enter__()
            assert caught.value.response.status_code == 503
            assert server.health()["connections"] == 1
            client.send(np.tile(AUDIO, 10).tobytes())
            client.socket.shutdown(socket.SHUT_RDWR)
        while server.health()["connections"]:
            pass
        assert told(server, PARTS) == heard
    assert "closed with 1006, the client has gone" in lines[0]


def test_an_idle_client_gets_its_last_result(model: Model) -> None:
    with served(model, idle_seconds=0.5) as (server, lines), connected(server) as client:
        client.send(CONFIG)
        client.send(AUDIO.tobytes())
        answers, code, reason = closed(client)
        assert answers == alone(model, [AUDIO])
        assert (code, reason) == (1008, "nothing was said for 0.5 s")
    assert len(lines) == 1


def test_a_client_who_does_not_read_is_left(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "finish", lambda self: _long_answer())
    monkeypatch.setattr("nnet3.speech.serve.server._CLOSE_SECONDS", 0.1)
    with served(model, idle_seconds=0.5) as (server, lines):
        with connected(server, max_queue=1, max_size=None, compression=None) as client:
            for _ in range(4):  # the first ones are read ahead
                client.send('{"reset" : 1}')
            while not lines:
                pass
            with contextlib.suppress(ConnectionClosed):  # who reads on can be closed
                while True:
                    client.recv()
        assert "closed with 1008, the client does not read its answers" in lines[0]
        assert server.health()["status"] == "ok"


def _long_answer() -> Any:
    yield from ()
    return "x" * (1 << 24)


def test_when_the_server_stops_everybody_gets_a_last_result(model: Model) -> None:
    """Also of messages that wait; a client who says nothing, and one who goes on for ever."""
    with ExitStack() as clients:
        with served(model) as (server, lines):
            waiting, silent, endless = (clients.enter_context(connected(server)) for _ in range(3))
            for message in [CONFIG, *(part.tobytes() for part in PARTS)]:
                waiting.send(message)
            ask(endless, AUDIO[:10].tobytes())
            talking = threading.Thread(target=_talk_for_ever, args=[endless])
            talking.start()
        answers, code, reason = closed(waiting)
        assert (code, reason) == (1001, "the server stops")
        assert answers == alone(model, PARTS[: len(answers) - 1])
        assert closed(silent) == ([{"text": ""}], 1001, "the server stops")
        assert closed(endless)[1:] == (1001, "the server stops")
        assert len(lines) == 3
        talking.join()


class _Gate:
    """Holds the network up in its run number `at` until `is_open`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int):
        self.at, self.runs = at, 0
        self.reached, self.is_open = threading.Event(), threading.Event()
        self._compute_scores = scheduler.compute_scores
        monkeypatch.setattr(scheduler, "compute_scores", self._run)

    def _run(self, inputs: Any) -> Any:
        self.runs += 1
        if self.runs == self.at:
            self.reached.set()
            assert self.is_open.wait(PATIENCE)
        return self._compute_scores(inputs)


def test_a_last_result_is_of_what_was_heard_in_time(
    model: Model, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a message that takes longer than the time for it, and of others that wait behind it."""
    gate = _Gate(monkeypatch, 5)
    with ExitStack() as clients:
        with served(model, stop_seconds=0.01) as (server, lines):
            client = clients.enter_context(connected(server))
            for message in [CONFIG, np.tile(AUDIO, 20).tobytes(), AUDIO.tobytes(), AUDIO.tobytes()]:
                client.send(message)
            assert gate.reached.wait(PATIENCE)
            over = server._shared.over
            threading.Thread(target=lambda: (_until(over.is_set), gate.is_open.set())).start()
        expected = alone(model, np.split(np.tile(AUDIO, 20)[: 5 * PIECE], [5 * PIECE]))
        assert closed(client) == ([expected[0], expected[-1]], 1001, "the server stops")
    assert gate.runs == 5
    assert lines[0].endswith("closed with 1001, the server stops")
    gc.collect()
    assert not caplog.records, "an exception of a task that nobody waits for is logged when it is collected"


def _until(is_so: Callable[[], bool]) -> bool:
    never, looks = threading.Event(), 60_000
    return any(is_so() or never.wait(PATIENCE / looks) for _ in range(looks))


def test_a_client_who_sends_more_than_is_read_gets_its_last_result(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is still sending when the server stops, and reads its answers after that."""
    gate, sound = _Gate(monkeypatch, 5), np.tile(AUDIO, 8).tobytes()
    with ExitStack() as clients:
        with served(model, stop_seconds=0.01, max_queue=1) as (server, _):
            client = clients.enter_context(connected(server))
            client.send(CONFIG)
            sending = threading.Thread(target=_send_all, args=(client, [sound] * 30))
            sending.start()
            assert gate.reached.wait(PATIENCE)
            over = server._shared.over
            threading.Thread(target=lambda: (_until(over.is_set), gate.is_open.set())).start()
        sending.join()
        expected = alone(model, [np.tile(AUDIO, 2)[: 5 * PIECE]])
        assert closed(client) == (expected, 1001, "the server stops")


def _send_all(client: ClientConnection, messages: list[bytes]) -> None:
    with contextlib.suppress(ConnectionClosed):
        for message in messages:
            client.send(message)


def test_a_client_who_leaves_more_than_is_read_is_heard_no_further(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the connection lies behind messages for which there is no room in the queue, but in the system."""
    monkeypatch.setattr(conversation, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(server_module, "_PING_SECONDS", PATIENCE)  # a ping sees the end too
    gate = _Gate(monkeypatch, 3)
    with served(model, max_queue=1) as (server, lines):
        with connected(server) as client:
            client.send(CONFIG)
            for _ in range(4):
                client.send(AUDIO[: 4 * PIECE].tobytes())
            assert gate.reached.wait(PATIENCE)
            client.socket.shutdown(socket.SHUT_RDWR)
        assert _until(lambda: not server.health()["connections"])
        gate.is_open.set()
        assert told(server, PARTS) == alone(model, PARTS)
    assert "closed with 1006, the client has gone" in lines[0]
    assert gate.runs == 3 + len(PARTS)


def test_a_client_who_waits_long_for_an_answer_is_kept(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pongs lie behind messages for which there is no room in the queue."""
    listen = server_module.listen

    def impatient(*args: Any, **options: Any) -> Any:
        return listen(*args, **{"ping_timeout": 0.1, **options, "ping_interval": 0.1})

    monkeypatch.setattr(server_module, "listen", impatient)
    ping, pings = Connection.ping, list[str]()

    def counted(self: Connection, *args: Any) -> Any:
        pings.append("ping")
        return ping(self, *args)

    monkeypatch.setattr(Connection, "ping", counted)
    gate = _Gate(monkeypatch, 3)
    with served(model, max_queue=1) as (server, _), connected(server) as client:
        client.send(CONFIG)
        for _ in range(4):
            client.send(AUDIO[: 4 * PIECE].tobytes())
        assert gate.reached.wait(PATIENCE)
        assert _until(lambda: len(pings) > 5 or not server.health()["connections"])
        gate.is_open.set()
        assert len([answer(client) for _ in range(4)]) == 4


def _talk_for_ever(client: ClientConnection) -> None:
    with contextlib.suppress(ConnectionClosed):
        while True:
            client.send(bytes(20))


def test_a_bug_ends_one_conversation(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation.Session, "command", lambda self, text: {}[text])
    with served(model) as (server, lines), connected(server) as client:
        client.send("{}")
        assert closed(client)[1:] == (1011, "KeyError: '{}'")
    assert len(lines) == 1


def test_rate_is_in_the_protocol(model: Model) -> None:
    """Without a configuration, the server's own options hold."""
    with served(model, sample_rate=RATE, words=False) as (server, _), connected(server) as client:
        ask(client, AUDIO.tobytes())
        assert set(ask(client, EOF)) == {"text"}
