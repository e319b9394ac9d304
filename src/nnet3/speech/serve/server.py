"""Server: listens, answers requests for pages, and opens a conversation for every connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from importlib.metadata import version
from importlib.resources import files

from websockets.asyncio.server import Server as Listener, ServerConnection, serve as listen
from websockets.datastructures import Headers
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from nnet3.base.options.serve import ServeOptions
from nnet3.errors import ArgumentError
from nnet3.inference.stream import StreamComputer
from nnet3.speech.asr.recognizer import Model
from nnet3.speech.asr.speakers import SpkModel
from nnet3.speech.serve.access import AccessRules
from nnet3.speech.serve.conversation import Conversation, Resources
from nnet3.speech.serve.metrics import Metrics
from nnet3.speech.serve.scheduler import Scheduler
from nnet3.speech.serve.session import MoreModels, Session

_LOG = logging.getLogger("nnet3.serve")
_CLOSE_SECONDS = 5.0  # for the other side's part in closing a connection
_PING_SECONDS = 5.0
_HTML, _SCRIPT, _STYLE = "text/html; charset=utf-8", "text/javascript; charset=utf-8", "text/css; charset=utf-8"
_PAGES = {
    "/": ("index.html", _HTML),
    "/page.js": ("page.js", _SCRIPT),
    "/recorder.js": ("recorder.js", _SCRIPT),
    "/page.css": ("page.css", _STYLE),
}
_SAFE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Permissions-Policy": "microphone=(self)",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Connection": "close",
}


class Server:
    """A server of a model at `address`, host and port; it runs in its own thread within `with`.

    `more` models can be chosen by clients, by the names of their folders. With a speaker model, results have the
    speaker's vector.

    At the end every client gets the words said so far. `report` is told a line for each connection when it ends. Raises
    ArgumentError if the port cannot be had.
    """

    address: tuple[str, int]

    def __init__(
        self,
        model: Model,
        options: ServeOptions | None = None,
        report: Callable[[str], None] = _LOG.info,
        *,
        more: Sequence[Model] = (),
        speaker_model: SpkModel | None = None,
    ) -> None:
        self.model, self.options = model, options or ServeOptions()
        self.metrics, self._report, self._begin = Metrics(), report, time.monotonic()
        self._access = AccessRules(self.options)
        self._conversations: dict[Conversation, asyncio.Task[None] | None] = {}
        names = [each.folder.path.name for each in more]
        twice = [name for name, count in Counter([model.folder.path.name, *names]).items() if count > 1]
        if twice:
            raise ArgumentError(f"clients choose models by the names of their folders, but two are called {twice[0]}")
        self._computer, *computers = map(self._prepared, (model, *more))
        self._more = MoreModels(dict(zip(names, zip(more, computers, strict=True), strict=True)), speaker_model)
        folder = files("nnet3.speech.serve") / "page"
        self._pages = {path: ((folder / name).read_bytes(), kind) for path, (name, kind) in _PAGES.items()}
        self._thread: threading.Thread | None = None

    def _prepared(self, model: Model) -> StreamComputer:
        """Returns a computer of a model for all clients, with its program."""
        computer = model.computer(self.options.max_connections)
        computer.prepare()
        return computer

    def __enter__(self) -> Server:
        started = Future[tuple[asyncio.AbstractEventLoop, Listener]]()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(started)), name="nnet3-serve", daemon=True)
        self._thread.start()
        self._loop, listener = started.result()
        host, port = listener.sockets[0].getsockname()[:2]
        self.address = host, port
        return self

    def __exit__(self, *error: object) -> None:
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._shared.stopping.set)
        self._thread.join()

    async def _run(self, started: Future[tuple[asyncio.AbstractEventLoop, Listener]]) -> None:
        options = self.options
        with (
            Scheduler(options.threads, self.metrics.streams.observe) as scheduler,
            ThreadPoolExecutor(1, "nnet3-phrases") as preparing,
        ):
            stopping, over = asyncio.Event(), asyncio.Event()
            self._shared = Resources(options, scheduler, self.metrics, preparing, stopping, over, self._report)
            try:
                listener = await self._listen()
            except OSError as error:
                reason = error.strerror or str(error)
                started.set_exception(ArgumentError(f"cannot listen at {options.host}, port {options.port}: {reason}"))
                return
            started.set_result((asyncio.get_running_loop(), listener))
            await stopping.wait()
            listener.close(close_connections=False)
            for seconds in (options.stop_seconds, 2 * _CLOSE_SECONDS):  # for audio that waits; for last results
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(listener.wait_closed(), seconds)
                over.set()
            for task in self._conversations.values():
                if task is not None:
                    task.cancel()
            await listener.wait_closed()

    async def _listen(self) -> Listener:
        options, silent = self.options, logging.getLogger("nnet3.serve.websockets")
        silent.setLevel(logging.CRITICAL + 1)  # it tells of everybody who knocks; what fails here is reported here
        return await listen(
            self._converse,
            options.host,
            options.port,
            process_request=self._respond,
            compression=None,
            server_header=None,
            max_size=options.max_message,
            max_queue=options.max_queue,
            close_timeout=_CLOSE_SECONDS,
            ping_interval=_PING_SECONDS,  # the kernel of a client who has gone answers with a reset
            ping_timeout=None,  # a pong lies behind the messages that wait
            logger=silent,
        )

    async def _converse(self, connection: ServerConnection) -> None:
        if self._too_many(connection):  # of two who came at the same time
            self.metrics.refused.inc()
            await connection.close(CloseCode.TRY_AGAIN_LATER, "too many connections")
            return
        conversation = Conversation(
            connection, Session(self.model, self._computer, self.options, self._more), self._shared
        )
        self._conversations[conversation] = asyncio.current_task()
        self.metrics.connections.inc()
        try:
            await conversation.run()
        finally:
            self.metrics.connections.dec()
            del self._conversations[conversation]

    def _too_many(self, connection: ServerConnection) -> str:
        """Returns the limit that keeps a new client out, such as "too many connections", or ""."""
        if len(self._conversations) >= self.options.max_connections:
            return "too many connections"
        others = (conversation.address for conversation in self._conversations)
        is_full = self._access.is_full(connection.remote_address[0], others)
        return "too many connections from this address" if is_full else ""

    @property
    def _is_stopping(self) -> bool:
        return self._shared.stopping.is_set()

    # ---- requests for pages ----

    def _respond(self, connection: ServerConnection, request: Request) -> Response | None:
        """Returns the response to a request; None to a request for a connection that can be had."""
        path = request.path.partition("?")[0]
        is_connection = any(each.lower() == "websocket" for each in request.headers.get_all("Upgrade"))
        refusal = self._access.refusal(request.headers, is_connection)
        if refusal is not None:
            self.metrics.refused.inc()
            return _response("text/plain", f"{refusal}\n".encode(), HTTPStatus.FORBIDDEN)
        if is_connection:
            reason = "the server stops" if self._is_stopping else self._too_many(connection)
            if not reason:
                return None
            self.metrics.refused.inc()
            return _response("text/plain", f"{reason}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "5"})
        if path == "/health":
            health = self.health()
            is_good = health["status"] == "ok"
            status = HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE
            return _response("application/json", json.dumps(health).encode() + b"\n", status)
        if path == "/metrics":
            return _response("text/plain; version=0.0.4; charset=utf-8", self.metrics.text())
        if path in self._pages:
            body, kind = self._pages[path]
            return _response(kind, body)
        return _response("text/plain", b"not found\n", HTTPStatus.NOT_FOUND)

    def health(self) -> dict[str, str | int | float]:
        """Returns how the server is: `status` is "ok", "stopping" or "failed"."""
        is_alive = self._shared.scheduler.is_alive
        return {
            "status": "stopping" if self._is_stopping else "ok" if is_alive else "failed",
            "version": version("nnet3"),
            "model": self.model.folder.path.name,
            "models": 1 + len(self._more.by_name),
            "sample_rate": self.model.sample_rate,
            "connections": len(self._conversations),
            "max_connections": self.options.max_connections,
            "uptime_seconds": round(time.monotonic() - self._begin, 1),
        }


def _response(
    kind: str, body: bytes, status: HTTPStatus = HTTPStatus.OK, more: dict[str, str] | None = None
) -> Response:
    headers = {"Content-Type": kind, "Content-Length": str(len(body)), **_SAFE, **(more or {})}
    return Response(status.value, status.phrase, Headers(headers), body)


def serve(
    model: Model,
    options: ServeOptions | None = None,
    report: Callable[[str], None] = _LOG.info,
    *,
    more: Sequence[Model] = (),
    speaker_model: SpkModel | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT comes; a second signal ends serving at once."""
    told = threading.Event()

    def tell(number: int, frame: object) -> None:
        told.set()
        for each, handler in before.items():
            signal.signal(each, handler)

    with Server(model, options, report, more=more, speaker_model=speaker_model) as server:
        before = {number: signal.signal(number, tell) for number in (signal.SIGTERM, signal.SIGINT)}
        host, port = server.address
        report(f"listening at http://{f'[{host}]' if ':' in host else host}:{port} (Ctrl-C ends it)")
        told.wait()
        report("stopping")
