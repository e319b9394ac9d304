"""Server: pages, health and metrics, the port, and signals to the command."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from nnet3.asr import Model
from nnet3.errors import ArgumentError
from nnet3.options import ServeOptions
from nnet3.serve import Server
from tests.asr.small_recognizer import RATE, audio, write_recognizer
from tests.patience import PATIENCE
from tests.serve.talk import CONFIG, EOF, alone, answer, ask, closed, connected, told

AUDIO = audio(2.0)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(write_recognizer(tmp_path_factory.mktemp("model") / "small"))


@pytest.fixture(scope="module")
def server(model: Model) -> Iterator[Server]:
    with Server(model, ServeOptions(port=0)) as server:
        yield server


def page(server: Server, path: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
    host, port = server.address
    try:
        request = urllib.request.Request(f"http://{host}:{port}{path}", headers=headers or {})
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return response.status, dict(response.headers), response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def test_pages(server: Server) -> None:
    status, headers, body = page(server, "/?from=elsewhere")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert b"//" not in body.replace(b"<!doctype", b""), "nothing comes from elsewhere"
    named = [name for name in ("page.css", "page.js") if name.encode() in body]
    assert all(page(server, f"/{name}")[0] == 200 for name in [*named, "recorder.js"])
    assert page(server, "/../server.py")[0] == page(server, "/nothing")[0] == 404


def test_health_and_metrics(model: Model, server: Server) -> None:
    assert told(server, [AUDIO]) == alone(model, [AUDIO])
    status, headers, body = page(server, "/health")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    health = json.loads(body)
    assert health["status"] == "ok"
    assert (health["connections"], health["max_connections"], health["sample_rate"]) == (0, 32, 8000)
    lines = page(server, "/metrics")[2].decode().splitlines()
    assert 'nnet3_closed_total{code="1000"} 1.0' in lines
    assert "nnet3_audio_seconds_total 2.0" in lines
    assert "nnet3_answer_seconds_count 2.0" in lines
    assert "nnet3_streams_per_run_count 10.0" in lines


def test_pages_of_others_and_other_names_are_refused(model: Model) -> None:
    """A page of any site can ask a browser to connect to its own machine, and can let its own name lead there."""
    with Server(model, ServeOptions(port=0, allow_origin="https://speech.example")) as server:
        host, port = server.address
        own, theirs = f"http://{host}:{port}", "https://evil.example"
        url = f"ws://{host}:{port}/"
        for origin in (None, own, "https://speech.example"):
            with connect(url, origin=origin, open_timeout=PATIENCE) as client:  # type: ignore[arg-type]
                assert ask(client, EOF) == {"text": ""}
        for origin in (theirs, "null", f"http://{host}:{port + 1}"):
            with pytest.raises(InvalidStatus) as caught:
                connect(url, origin=origin, open_timeout=PATIENCE)  # type: ignore[arg-type]
            assert caught.value.response.status_code == 403
        for path in ("/health", "/metrics", "/"):
            statuses = [
                page(server, path, {"Host": name})[0]
                for name in (f"{host}:{port}", f"localhost:{port}", "speech.example", f"evil.example:{port}")
            ]
            assert statuses == [200, 200, 200, 403]
        assert server.health()["connections"] == 0


def test_an_address_has_a_limit(model: Model) -> None:
    """Not that of this machine, where what hands on for others is."""
    with Server(model, ServeOptions(port=0, max_per_address=2)) as server, contextlib.ExitStack() as clients:

        def come(own: str) -> ClientConnection:
            connection = socket.create_connection(server.address, PATIENCE, (own, 0))
            return clients.enter_context(connect("ws://x/", sock=connection, open_timeout=PATIENCE))

        for address in ("127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.1", "127.0.0.1", "127.0.0.1"):
            ask(come(address), b"")
        with pytest.raises(InvalidStatus) as caught:
            come("127.0.0.2")
        assert caught.value.response.status_code == 503
        assert caught.value.response.body == b"too many connections from this address\n"
        ask(come("127.0.0.3"), b"")


def test_a_port_that_is_taken(model: Model, server: Server) -> None:
    port = server.address[1]
    with (
        pytest.raises(ArgumentError, match=f"cannot listen at 127.0.0.1, port {port}: "),
        Server(model, ServeOptions(port=port)),
    ):
        pass


def test_a_signal_ends_the_command_with_last_results(model: Model, programs: Path) -> None:
    command = [programs / "nnet3", "serve", "--port=0", model.folder.path]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline()
        assert address.startswith("nnet3: listening at http://127.0.0.1:")
        url = address.split()[3].replace("http", "ws")
        with connect(url, open_timeout=PATIENCE) as client:
            client.send(CONFIG)
            said = ask(client, AUDIO.tobytes())
            process.terminate()
            assert ([said, *closed(client)[0]], closed(client)[1]) == (alone(model, [AUDIO]), 1001)
        assert process.wait(PATIENCE) == 0
        lines = process.stderr.read().splitlines()
    assert lines[0] == "nnet3: stopping"
    assert lines[1].endswith("2.0 s of audio; closed with 1001, the server stops")
    assert len(lines) == 2


def test_several_models(model: Model, tmp_path: Path) -> None:
    """They are heard at the same time, each by the network of its own."""
    other = Model(write_recognizer(tmp_path / "other"))
    with Server(model, ServeOptions(port=0), more=[other]) as server, contextlib.ExitStack() as stack:
        assert server.health()["models"] == 2
        clients = [stack.enter_context(connected(server)) for _ in range(4)]
        for number, client in enumerate(clients):
            client.send(json.dumps({"config": {"sample_rate": RATE, "model": ("small", "other")[number % 2]}}))
            client.send(AUDIO.tobytes())
            client.send(EOF)
        answers = [closed(client)[0] for client in clients]
        for heard, each in zip(answers, (model, other, model, other), strict=True):
            expected = alone(each, [AUDIO])
            assert heard[0] == expected[0]
            assert heard[1]["text"] == expected[1]["text"]
        with connected(server) as client:
            client.send('{"config": {"model": "third"}}')
            assert answer(client)["error"] == "this server has no model 'third', but small, other"
    with pytest.raises(ArgumentError, match="two are called small"):
        Server(model, ServeOptions(port=0), more=[Model(write_recognizer(tmp_path / "small"))])
