"""Clients of a server: what the published ones do, message by message."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from nnet3.asr import Model, Recognizer
from nnet3.serve import Server
from tests.asr.small_recognizer import RATE
from tests.patience import PATIENCE

CONFIG = json.dumps({"config": {"sample_rate": RATE}})
EOF = '{"eof" : 1}'


def connected(server: Server, max_queue: int | None = None, **options: Any) -> ClientConnection:
    """A client that takes all answers at once: one with a full queue sees neither what follows nor the end."""
    url = "ws://{}:{}/".format(*server.address)
    return connect(url, open_timeout=PATIENCE, close_timeout=PATIENCE, max_queue=max_queue, **options)


def ask(client: ClientConnection, message: str | bytes) -> Any:
    """Returns the answer to a message."""
    client.send(message)
    return answer(client)


def answer(client: ClientConnection) -> Any:
    return json.loads(client.recv(timeout=PATIENCE))


def closed(client: ClientConnection) -> tuple[list[Any], int, str]:
    """Returns all answers up to the end, its code and its reason."""
    answers = []
    try:
        while True:
            answers.append(answer(client))
    except ConnectionClosed as error:
        end = error.rcvd
    assert end is not None
    return answers, end.code, end.reason


def told(server: Server, parts: Iterable[np.ndarray]) -> list[Any]:
    """Returns the answers to a recording in parts, as the client `test.py` of vosk-server asks for them."""
    with connected(server) as client:
        client.send(CONFIG)
        return [*(ask(client, part.tobytes()) for part in parts), ask(client, EOF)]


def alone(model: Model, parts: Iterable[np.ndarray]) -> list[Any]:
    """Returns what a recognizer of its own answers."""
    recognizer = Recognizer(model, RATE)
    recognizer.SetWords(True)
    answers = [recognizer.Result() if recognizer.accept(part) else recognizer.PartialResult() for part in parts]
    return [json.loads(each) for each in [*answers, recognizer.FinalResult()]]
