"""Conversation: one connection, from the first message to the close code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from nnet3.base.options.serve import ServeOptions
from nnet3.errors import ArgumentError, Nnet3Error
from nnet3.speech.serve.metrics import Metrics
from nnet3.speech.serve.scheduler import Scheduler, Work
from nnet3.speech.serve.session import Session

_MOST_LETTERS = 500  # of an error message to a client
_MOST_BYTES = 120  # of the reason in a closing frame
_LOOK_SECONDS = 1.0  # between looks whether a client whose audio is heard is still there
_STOP = (CloseCode.GOING_AWAY, "the server stops")


@dataclass(frozen=True)
class Resources:
    """Resources shared by all conversations. `preparing` makes graphs of phrases.

    `stopping` is set once, when the server stops; `over` once, when waiting audio is heard no further.
    """

    options: ServeOptions
    scheduler: Scheduler
    metrics: Metrics
    preparing: Executor
    stopping: asyncio.Event
    over: asyncio.Event
    report: Callable[[str], None]


class Conversation:
    """Takes the messages of a client one by one, and answers a message before taking the next.

    A client who sends faster than audio can be heard is therefore read no further once `max_queue` messages wait.
    """

    def __init__(self, connection: ServerConnection, session: Session, shared: Resources):
        self._connection, self._session, self._shared = connection, session, shared
        self._gone = asyncio.create_task(connection.wait_closed())
        self._stopping = asyncio.create_task(shared.stopping.wait())
        self._last_messages = shared.options.max_queue  # that are taken when the server stops

    @property
    def address(self) -> str:
        """The client's, without the port."""
        return str(self._connection.remote_address[0])

    async def run(self) -> None:
        """Answers until the client or the server ends the conversation; then closes the connection."""
        code, reason = CloseCode.ABNORMAL_CLOSURE, "the client has gone"
        try:
            code, reason = await self._answer_all()
        except (ConnectionClosed, ConnectionResetError):
            pass
        except asyncio.TimeoutError:
            code, reason = CloseCode.POLICY_VIOLATION, "the client does not read its answers"
        except Nnet3Error as error:
            is_theirs = isinstance(error, ArgumentError)
            code, reason = CloseCode.INVALID_DATA if is_theirs else CloseCode.INTERNAL_ERROR, str(error)[:_MOST_LETTERS]
            with contextlib.suppress(ConnectionClosed, asyncio.TimeoutError):
                await self._send(json.dumps({"error": reason}))
        except asyncio.CancelledError:  # the time for last results is over
            code, reason = _STOP
            self._connection.transport.abort()
            raise
        except Exception as error:
            code, reason = CloseCode.INTERNAL_ERROR, f"{type(error).__name__}: {error}"
        finally:
            self._stopping.cancel()
            self._shared.scheduler.submit(self._session.close())
            self._shared.metrics.closed.labels(code=str(int(code))).inc()
            heard = f"{self._session.seconds:.1f} s of audio"
            self._shared.report(f"{_address(self._connection)}: {heard}; closed with {code:d}, {reason}")
        await self._hang_up(code, reason.encode()[:_MOST_BYTES].decode(errors="ignore"))

    async def _hang_up(self, code: CloseCode, reason: str) -> None:
        """Closes the connection. What the client has sent in vain is read meanwhile: with bytes left unread the system
        would reset the connection, and the client would lose the answers that are still on their way."""
        closing = asyncio.create_task(self._connection.close(code, reason))
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self._connection.recv()
        await closing
        await self._gone

    async def _answer_all(self) -> tuple[CloseCode, str]:
        """Returns why the connection is to be closed."""
        shared, session = self._shared, self._session
        while True:
            message = await self._next_message()
            if not isinstance(message, str | bytes):
                await self._send(await self._done(session.finish()))
                return message
            command = session.command(message) if isinstance(message, str) else "audio"
            if command == "config":
                continue
            if session.takes_time_to_begin:
                await asyncio.get_running_loop().run_in_executor(shared.preparing, session.begin)
            begin, before = time.perf_counter(), session.seconds
            is_over = shared.over.is_set
            work = session.hear(message, is_over) if isinstance(message, bytes) else session.finish()
            answer = await self._done(work)
            shared.metrics.answer_seconds.observe(time.perf_counter() - begin)
            shared.metrics.audio.inc(session.seconds - before)
            await self._send(answer)
            if command == "eof":
                return CloseCode.NORMAL_CLOSURE, "all was said"

    async def _next_message(self) -> str | bytes | tuple[CloseCode, str]:
        """Returns the next message, or why there is to be none. When the server stops, waiting messages still come."""
        if self._stopping.done():
            self._last_messages -= 1
            if self._last_messages < 0 or self._shared.over.is_set():
                return _STOP
        receive = asyncio.create_task(self._connection.recv())
        idle = self._shared.options.idle_seconds
        await asyncio.wait({receive, self._stopping}, timeout=idle, return_when=asyncio.FIRST_COMPLETED)
        if not receive.done():
            receive.cancel()
            await asyncio.wait({receive})
        if not receive.cancelled():
            return receive.result()
        if self._stopping.done():
            return _STOP
        return CloseCode.POLICY_VIOLATION, f"nothing was said for {idle:g} s"

    async def _done(self, work: Work[str]) -> str:
        """Returns the answer of `work`. Raises ConnectionResetError if nobody waits for it any more."""
        future = asyncio.wrap_future(self._shared.scheduler.submit(work))
        either: set[asyncio.Future[Any]] = {future, self._gone}
        try:
            while not (await asyncio.wait(either, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED))[0]:
                if self._has_hung_up():
                    self._connection.transport.abort()
        finally:
            has_answer = future.done() or not future.cancel()
        if not has_answer:
            raise ConnectionResetError
        return future.result()

    def _has_hung_up(self) -> bool:
        """Returns True if the client has ended the connection, even with unread messages before the end.

        While too many messages wait, no other check sees the end. Only Linux tells it; elsewhere the messages are
        heard.
        """
        number = self._connection.transport.get_extra_info("socket").fileno()
        if number < 0 or not hasattr(select, "POLLRDHUP"):
            return number < 0
        ends = select.poll()
        ends.register(number, select.POLLRDHUP)
        return bool(ends.poll(0))

    async def _send(self, text: str) -> None:
        await asyncio.wait_for(self._connection.send(text), self._shared.options.idle_seconds)


def _address(connection: ServerConnection) -> str:
    host, port = connection.remote_address[:2]
    return f"{host}:{port}"
