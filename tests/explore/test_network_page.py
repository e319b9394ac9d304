"""Pages as text: what they hold, what they refuse, what they cannot do."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import urllib.error
import urllib.request
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import ArgumentError, Nnet3Error
from nnet3.explore import PageServer, explore, serving
from nnet3.explore.histograms import histogram
from nnet3.explore.html import static
from nnet3.model.nnet import Nnet
from tests.explore.models import HOSTILE, computational_network, hostile, lstm, request


def _data(page: str) -> Any:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def _is_answered(server: PageServer) -> bool:
    with urllib.request.urlopen(server.url) as answer:
        return bool(answer.read() == b"page")


def test_clients_that_leave_or_fall_silent_are_forgotten(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_MOST_CLIENTS", 3)
    monkeypatch.setattr(serving, "_SECONDS", 0.3)
    monkeypatch.setattr(serving._Handler, "timeout", 0.3)
    with PageServer(lambda: "page") as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        before = threading.active_count()
        silent = [socket.create_connection(server.server_address) for _ in range(8)]  # type: ignore[arg-type]
        for number, client in enumerate(silent):
            client.sendall(b"GET / HT" if number % 2 else b"GET / HTTP/1.0\r\nX: ")
        assert threading.active_count() <= before + 2 * serving._MOST_CLIENTS + 1
        assert _is_answered(server)
        for _ in range(5):
            with socket.create_connection(server.server_address) as client:  # type: ignore[arg-type]
                client.sendall(b"GET / HTTP/1.0\r\nHost: 127.0.0.1:1\r\n\r\n")
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it resets
        assert _is_answered(server)
        for client in silent:
            client.close()
        server.shutdown()
        thread.join()
    assert capsys.readouterr().err == ""


def test_the_network_alone() -> None:
    data = _data(explore(lstm(), title="a"))
    assert set(data) == {"title", "network"}
    assert [layer["name"] for layer in data["network"]["layers"]][:3] == ["input", "tdnn1", "tdnnf2"]
    assert data["network"]["facts"]["left context"] == 2
    (output,) = (node for node in data["network"]["nodes"] if node["name"] == "output")
    assert output["context"] == [-2, data["network"]["facts"]["right context"]]
    affine = data["network"]["components"][0]
    assert affine["parameters"] == 15 * 16 + 16
    assert [sum(each["counts"]) for each in affine["histograms"]] == [15 * 16, 16]


def test_nothing_of_the_network_is_changed() -> None:
    nnet = lstm()
    before = nnet.copy()
    explore(nnet, request(nnet))
    for name, component in nnet.components.items():
        for key, tensor in component.parameters().items():
            assert torch.equal(tensor, before.components[name].parameters()[key])
    assert nnet.info() == before.info()


def test_names_are_no_markup(tmp_path) -> None:
    page = explore(hostile(tmp_path), title=HOSTILE)
    assert HOSTILE not in page
    assert page.count("<script") == 2
    assert _data(page)["title"] == HOSTILE
    assert _data(page)["network"]["components"][0]["name"] == HOSTILE


def test_scripts_make_no_markup_of_text() -> None:
    for name in ("base", "network", "time", "program", "memory", "profile", "explorer"):
        script = static(f"{name}.js")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|fetch\(", script
        )


def test_the_policy_names_what_may_run() -> None:
    page = explore(lstm())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]


def test_a_computational_network() -> None:
    network = computational_network()
    batch = {"x": cn.sequences([np.ones((3, 4))]), "labels": cn.sequences([np.ones((2, 4)) / 2])}
    data = _data(explore(network, batch, profiled=False))
    assert "profile" not in data
    assert data["network"]["facts"]["criteria"] == "J"
    parameters = [c for c in data["network"]["components"] if c["name"] == "V"]
    assert parameters[0]["histograms"][0]["shape"] == [4, 2]
    assert any("Backprop" in text for text in data["texts"])


def test_a_network_in_stages_is_shown_without_a_program() -> None:
    network = cn.Network(outputs={"last": cn.sequence.last(cn.tanh(cn.input("x", 3)))})
    assert _data(explore(network))["network"]
    with pytest.raises(Nnet3Error, match="computed by several programs, one for each stage, and a page shows one"):
        explore(network, {"x": cn.sequences([np.ones((3, 4))])})


@pytest.mark.parametrize(("model", "asked"), [("x.mdl", None), (lstm(), {"input": 3}), (computational_network(), [1])])
def test_other_things_are_refused(model: Any, asked: Any) -> None:
    with pytest.raises(ArgumentError):
        explore(model, asked)


def test_histograms_of_odd_tensors() -> None:
    assert histogram("a", torch.tensor([float("nan"), 1.0, 1.0]))["counts"] == [2]
    assert histogram("a", torch.tensor([float("nan")])) == {"name": "a", "shape": [1], "bad": 1, "counts": []}
    assert histogram("a", torch.zeros(0, 3))["counts"] == []
    wide = histogram("a", torch.linspace(-1, 1, 80))
    assert wide["counts"] == [2] * 40
    assert (wide["min"], wide["max"], wide["mean"]) == (-1, 1, pytest.approx(0, abs=1e-6))


def test_a_name_of_few_letters_is_a_page_too() -> None:
    assert "<title>Network - nnet3</title>" in explore(
        Nnet.from_config("input-node name=a dim=1\noutput-node name=b input=a")
    )


def test_a_page_that_cannot_be_made_yet() -> None:
    def fail() -> str:
        raise Nnet3Error("exp: no log of a training run")

    with PageServer(fail) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(server.url)
            refused.value.close()
            assert refused.value.code == 503
        finally:
            server.shutdown()
            thread.join()


def test_the_server_answers_this_machine_alone() -> None:
    with PageServer(lambda: "<!doctype html>") as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            assert server.url.startswith("http://127.0.0.1:")
            assert urllib.request.urlopen(server.url).read() == b"<!doctype html>"
            for path, host, status in (("", "elsewhere.example:80", 403), ("etc/passwd", "", 404)):
                headers = {"Host": host} if host else {}
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(urllib.request.Request(server.url + path, headers=headers))
                refused.value.close()
                assert refused.value.code == status
        finally:
            server.shutdown()
            thread.join()
