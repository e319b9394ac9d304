"""The example of docs/serving.md, run by nginx before a server, both on this machine alone."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from nnet3.asr import Model
from nnet3.options import ServeOptions
from nnet3.serve import Server
from tests.asr.small_recognizer import audio, write_recognizer
from tests.serve.talk import CONFIG, ask, told

_PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
_PROGRAM = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
_MAIN = """
{user} pid {folder}/pid; error_log {folder}/errors;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    {site}
}}
"""
pytestmark = pytest.mark.skipif(_PROGRAM is None or shutil.which("openssl") is None, reason="no nginx, or no openssl")


class Front(NamedTuple):
    """nginx at a port, and the server behind it."""

    port: int
    plain_port: int
    trust: ssl.SSLContext
    server: Server

    def connected(self, user: str = "anna:pass", **options: Any) -> ClientConnection:
        where = f"wss://{user}@127.0.0.1:{self.port}/"
        return connect(where, ssl=self.trust, server_hostname="speech.example", proxy=None, **options)

    def head(self, path: str, is_plain: bool = False) -> str:
        """Returns the status line and the headers of a page."""
        with socket.create_connection(("127.0.0.1", self.plain_port if is_plain else self.port)) as opened:
            one = opened if is_plain else self.trust.wrap_socket(opened, server_hostname="speech.example")
            with one:
                user = "Authorization: Basic YW5uYTpwYXNz\r\n"
                one.sendall(f"GET {path} HTTP/1.0\r\nHost: speech.example\r\n{user}\r\n".encode())
                return b"".join(iter(lambda: one.recv(4096), b"")).decode().partition("\r\n\r\n")[0]


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _site(folder: Path, server_port: int, port: int, plain_port: int) -> str:
    """Returns the example with this machine's files and ports."""
    (text,) = re.findall(r"```nginx\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    changes = {
        "/etc/letsencrypt/live/speech.example/": f"{folder}/",
        "/etc/nginx/speech.users": f"{folder}/speech.users",
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "listen 80": f"listen 127.0.0.1:{plain_port}",
        "127.0.0.1:2700": f"127.0.0.1:{server_port}",
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    subject = ["-subj", "/CN=speech.example", "-addext", "subjectAltName=DNS:speech.example"]
    files = ["-keyout", str(tmp_path / "privkey.pem"), "-out", str(tmp_path / "fullchain.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *files]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    said = subprocess.run(["openssl", "passwd", "-6", "pass"], check=True, capture_output=True, text=True).stdout
    (tmp_path / "speech.users").write_text(f"anna:{said}")
    rules = ServeOptions(port=0, allow_origin="https://speech.example", max_connections=64)
    with Server(Model(write_recognizer(tmp_path / "model")), rules) as server:
        ports = _free_port(), _free_port()
        user = "user root;" if os.geteuid() == 0 else ""  # who may read the folder of a test
        site = _site(tmp_path, server.address[1], *ports)
        (tmp_path / "nginx.conf").write_text(_MAIN.format(folder=tmp_path, site=site, user=user))
        options = ["-p", str(tmp_path), "-e", str(tmp_path / "errors"), "-c", str(tmp_path / "nginx.conf")]
        command = [str(_PROGRAM), *options]
        subprocess.run(command, check=True)  # it goes on in another process, and listens by now
        try:
            trust = ssl.create_default_context(cafile=str(tmp_path / "fullchain.pem"))
            yield Front(*ports, trust, server)
        finally:
            subprocess.run([*command, "-s", "stop"], check=True)


def test_what_is_said_through_nginx(front: Front) -> None:
    parts = [audio(0.3), audio(0.5)]
    with front.connected(origin="https://speech.example") as client:
        client.send(CONFIG)
        heard = [ask(client, part.tobytes()) for part in parts]
    assert heard == told(front.server, parts)[: len(parts)]


def test_who_is_kept_out(front: Front) -> None:
    for user in ("anna:wrong", "nobody:pass"):
        with pytest.raises(InvalidStatus, match="401"), front.connected(user):
            pass
    with pytest.raises(InvalidStatus, match="403"), front.connected(origin="https://evil.example"):
        pass
    for path in ("/health", "/metrics"):
        assert front.head(path).startswith("HTTP/1.1 404 ")
    assert front.head("/").startswith("HTTP/1.1 200 ")
    moved = front.head("/a?b", is_plain=True)
    assert moved.startswith("HTTP/1.1 301 ")
    assert "Location: https://speech.example/a?b" in moved


def test_an_address_has_its_limits(front: Front) -> None:
    with contextlib.ExitStack() as clients:
        for _ in range(8):
            clients.enter_context(front.connected())
        with pytest.raises(InvalidStatus, match="503"), front.connected():
            pass


def test_many_requests_at_once_are_refused(front: Front) -> None:
    """The first ones do not wait."""
    assert [front.head("/").split(" ")[1] for _ in range(20)] == ["200"] * 20
    assert "503" in [front.head("/").split(" ")[1] for _ in range(20)]
