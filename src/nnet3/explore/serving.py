"""Serves one page on the loopback address."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from nnet3.errors import Nnet3Error

_HOST = "127.0.0.1"
_SECONDS = 10.0  # that a client may take for its request, and be silent in the middle of an answer
_MOST_CLIENTS = 32  # at once: others wait until one is answered, and then are turned away


class PageServer(ThreadingHTTPServer):
    """Answers GET / with the page made by `make`, anew for every request; `port` 0 takes any free port.

    The server is reached from this machine alone. Raises OSError if the port is taken. Clients that leave or fall
    silent in the middle of a request are forgotten.
    """

    daemon_threads = True

    def __init__(self, make: Callable[[], str], port: int = 0):
        super().__init__((_HOST, port), _Handler)
        self.make = make
        self._free = threading.Semaphore(_MOST_CLIENTS)

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{_HOST}:{self.server_address[1]}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(timeout=_SECONDS):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Is silent about clients that have left; other errors are shown by the base class."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = _SECONDS

    def setup(self) -> None:
        super().setup()
        self._patience = threading.Timer(_SECONDS, self._give_up)
        self._patience.daemon = True
        self._patience.start()

    def _give_up(self) -> None:
        with contextlib.suppress(OSError):  # it has left
            self.connection.shutdown(socket.SHUT_RD)

    def finish(self) -> None:
        self._patience.cancel()
        super().finish()

    def do_GET(self) -> None:
        self._patience.cancel()  # the request is here: the answer may take long to make
        # A page elsewhere whose name was pointed at this address has another Host.
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in (_HOST, "localhost"):
            self.send_error(403)
            return
        if self.path != "/":
            self.send_error(404)
            return
        try:
            body = self.server.make().encode()
        except Nnet3Error as error:  # a run that has not begun has no log
            self.send_error(503, explain=str(error))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the terminal belongs to the verb."""
