"""Serves one page on the loopback address."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from nnet3.errors import Nnet3Error

_HOST = "127.0.0.1"


class PageServer(ThreadingHTTPServer):
    """Answers GET / with the page that `make` gives, made anew each time; `port` 0 takes any that is free.

    It is reached from this machine alone. Raises OSError if the port is taken.
    """

    daemon_threads = True

    def __init__(self, make: Callable[[], str], port: int = 0):
        super().__init__((_HOST, port), _Handler)
        self.make = make

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{_HOST}:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer

    def do_GET(self) -> None:
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
