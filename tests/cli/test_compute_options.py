"""Options that the verbs share that run a network over tables."""

from __future__ import annotations

import click
import pytest

from nnet3.cli import device as choose
from nnet3.cli.compute_options import _running
from tests.cli.run_command import Cli


@pytest.mark.parametrize("verb", ["compute", "compute-batch", "compute-looped"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ivectors=ark:a", "--online-ivectors=ark:b"], "give --ivectors or --online-ivectors, not both"),
        (["--utt2spk=ark:a"], "--utt2spk says whose --ivectors to take: give these too"),
        (["--online-ivectors=ark:a"], "--online-ivectors need --online-ivector-period=N"),
    ],
)
def test_options_that_do_not_go_together(cli: Cli, verb: str, options: list[str], message: str) -> None:
    outcome = cli(verb, *options, "net.raw", "ark:feats", "ark:out")
    assert outcome.status == 2
    assert message in outcome.err


@pytest.mark.parametrize(("rank", "device"), [(None, "cuda"), ("3", "cuda:3")])
def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch, rank: str | None, device: str) -> None:
    monkeypatch.setattr(choose, "choose_device", lambda *_: "cuda")
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", rank)
    seen: list[str] = []
    command = click.Command("any", callback=lambda: seen.append(_running({"device_name": None})["device"]))
    with click.Context(command) as context:
        context.meta["nnet3.internals"] = {}
        context.invoke(command)
    assert seen == [device]
