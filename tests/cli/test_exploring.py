"""`nnet3 explore`: pages of configs and of computational networks, and what is refused."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from nnet3 import cn
from tests.cli.run_command import Cli
from tests.explore.models import computational_network


def test_a_page_of_a_config(cli: Cli) -> None:
    cli.good("explore", "--output=output=0:3", "--profile=false", "net.config", "net.html")
    page = Path("net.html").read_text()
    assert '"title":"net.config"' in page
    assert '"programs":' in page
    assert '"profile":' not in page
    cli.good("explore", "--program=false", "net.raw", "net.html")
    assert '"programs":' not in Path("net.html").read_text()


def test_a_page_of_a_computational_network(cli: Cli) -> None:
    pytest.importorskip("safetensors")
    cn.save(computational_network(), "lstm.cn")
    cli.good("explore", "--frames=4", "lstm.cn", "lstm.html")
    page = Path("lstm.html").read_text()
    assert '"criteria":"J"' in page
    assert '"profile":' in page


def test_what_is_refused(cli: Cli) -> None:
    def said(*arguments: str) -> str:
        outcome = cli("explore", *arguments)
        assert outcome.status == 2
        return outcome.err

    assert "say where the page goes" in said("net.config")
    assert "give --frames" in said("--output=x=0:3", "lstm.cn", "a.html")
    assert "65536 is not in the range 0<=x<=65535" in said("--serve=65536", "net.config")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "give another port" in said(f"--serve={taken.getsockname()[1]}", "--program=false", "net.config")
