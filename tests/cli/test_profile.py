"""The verb profile: a table of where the time goes, and a trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.run_command import IVECTOR_CONFIG, Cli


def test_a_forward_run(cli: Cli) -> None:
    outcome = cli.good("profile", "--frames=4", "--repeats=1", "net.raw")
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["kind", "type", "calls", "ms", "%", "us/call", "MB", "GB/s"]
    assert {tuple(line.split()[:2]) for line in lines[1:]} >= {
        ("Propagate", "AffineComponent"),
        ("Propagate", "LogSoftmaxComponent"),
    }
    assert lines[-1].split()[0] == "all"
    assert " commands, " in outcome.err
    assert "compiled in " in outcome.err


def test_a_training_step_by_node_with_a_trace(cli: Cli) -> None:
    options = ["--train=true", "--num-sequences=3", "--frame-subsampling-factor=1", "--by=node,kind", "--limit=4"]
    outcome = cli.good("profile", *options, "--trace=trace.json", "net.config")
    assert outcome.out.splitlines()[0].split()[:3] == ["node", "kind", "calls"]
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    assert {(event["name"], event["cat"]) for event in events} >= {("affine", "Propagate"), ("affine", "Backprop")}


def test_a_network_with_an_ivector(cli: Cli) -> None:
    Path("ivector.config").write_text(IVECTOR_CONFIG)
    assert "AffineComponent" in cli.good("profile", "--frames=2", "ivector.config").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by=colour", "net.raw"], "--by=colour: give some of kind,type,kernel,node, for instance node,kind"),
        (["--num-sequences=10000000", "net.raw"], "rows are too many: at most 10,000,000"),
        (["two.config"], "only a simple network can be profiled"),
        (["other.config"], "rename-node old-name=output-0 new-name=output"),
    ],
)
def test_wrong_usage_is_status_2(arguments: list[str], message: str, cli: Cli) -> None:
    text = "input-node name=a dim=3\ninput-node name=b dim=3\noutput-node name=output input=Append(a, b)\n"
    Path("two.config").write_text(text)
    Path("other.config").write_text("input-node name=input dim=3\noutput-node name=output-0 input=input\n")
    outcome = cli("profile", *arguments)
    assert outcome.status == 2
    assert message in outcome.err
