"""show-computation: which request is made of what is given, what is printed of each stage, and for how long."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest

from nnet3.cli import show_stages as module
from nnet3.cli.show_stages import grouped_commands
from nnet3.engine.ir.passes.pipeline import optimize
from nnet3.model.nnet import Nnet
from nnet3.model.requests import build_graph, compile_family, generate, schedule
from tests.cli.run_command import CONFIG, IVECTOR_CONFIG, Cli

LOOKAHEAD = CONFIG.replace("Append(Offset(input, -1), input)", "Append(Offset(input, -1), Offset(input, 2))")


@pytest.mark.parametrize(
    ("text", "name", "times"),
    [
        ("output=3", "output", [3]),
        ("output=-2:1", "output", [-2, -1, 0, 1]),
        ("a b =0:7:3", "a b", [0, 3, 6]),
        ("x=5:5:9", "x", [5]),
        (f"x={2**30 - 1}", "x", [2**30 - 1]),
    ],
)
def test_times_of_an_option_are_read(text: str, name: str, times: list[int]) -> None:
    found = module._times(text)
    assert (found[0], found[1].tolist()) == (name, times)


@pytest.mark.parametrize(
    "text", ["x=3:2", "x=0:3:0", "x=0:10000000", "x=0:20000000:2", f"x={2**30}", f"x=-{2**30}", f"x={-(2**30)}:0:1000"]
)
def test_times_that_are_not_sensible(text: str) -> None:
    with pytest.raises(click.UsageError, match="FIRST must not be after LAST, STEP at least 1, and the range of sens"):
        module._times(text)


@pytest.mark.parametrize("text", ["x", "x=", "=3", "x=a", "x=1:2:3:4", "x=1:2:-1"])
def test_what_are_no_times(text: str) -> None:
    with pytest.raises(click.UsageError, match="is not NAME=FIRST:LAST or NAME=FIRST:LAST:STEP, for instance"):
        module._times(text)


def _rows(io: object) -> list[list[int]]:
    return np.asarray(io.indexes)[:, :2].tolist()  # type: ignore[attr-defined]


def test_what_the_output_needs_is_given() -> None:
    request = module.request_of_times(Nnet.from_config(LOOKAHEAD), (), ("output=2:4:2",), 2, False)
    (given,), (wanted,) = request.inputs, request.outputs
    assert _rows(wanted) == [[n, t] for t in (2, 4) for n in (0, 1)]
    assert _rows(given) == [[n, t] for t in range(1, 7) for n in (0, 1)]
    request = module.request_of_times(Nnet.from_config(LOOKAHEAD), (), (), 1, False)
    assert _rows(request.outputs[0]) == [[0, t] for t in range(10)]
    assert _rows(request.inputs[0]) == [[0, t] for t in range(-1, 12)]


@pytest.mark.parametrize("backward", [False, True])
def test_the_request_goes_backward_if_asked(backward: bool) -> None:
    request = module.request_of_times(Nnet.from_config(IVECTOR_CONFIG), (), ("output=0",), 3, backward)
    assert [io.name for io in request.inputs] == ["input", "ivector"]
    assert _rows(request.inputs[1]) == [[0, 0], [1, 0], [2, 0]]
    flags = (request.outputs[0].has_deriv, request.need_model_derivative, request.store_component_stats)
    assert flags == (backward, backward, backward)
    assert not request.inputs[0].has_deriv


def test_how_many_rows_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    nnet = Nnet.from_config(LOOKAHEAD)
    monkeypatch.setattr(module, "MAX_ROWS", 26)
    module.request_of_times(nnet, (), (), 2, False)
    module.request_of_times(nnet, ("input=0:12",), ("output=1",), 2, False)
    monkeypatch.setattr(module, "MAX_ROWS", 25)
    for inputs in ((), ("input=0:12",)):
        with pytest.raises(click.UsageError, match="26 rows are too many: at most 25 at each input and output"):
            module.request_of_times(nnet, inputs, ("output=1:10",), 2, False)
    monkeypatch.setattr(module, "_needed_inputs", None)  # which would take memory for all
    with pytest.raises(click.UsageError, match="26 rows are too many: at most 25 at each input and output"):
        module.request_of_times(nnet, (), (), 1, False, frames=26)


def test_a_network_that_is_not_simple() -> None:
    two = "input-node name=a dim=3\ninput-node name=b dim=3\noutput-node name=output input=Append(a, b)\n"
    nnet = Nnet.from_config(two)
    with pytest.raises(click.UsageError, match=r"the network is not simple: say with --input .*\(it has inputs a, b\)"):
        module.request_of_times(nnet, (), (), 1, False)
    request = module.request_of_times(nnet, ("a=0:1", "b=1"), ("output=1",), 1, False)
    assert [_rows(io) for io in request.inputs] == [[[0, 0], [0, 1]], [[0, 1]]]


def test_what_is_printed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=itertools.count(3, 2).__next__))
    Path("net.config").write_text(LOOKAHEAD)
    nnet = Nnet.from_config(LOOKAHEAD)
    request = module.request_of_times(nnet, (), ("output=0:1",), 1, True)
    graph = build_graph(nnet, request)
    organized = schedule(nnet, graph)
    generated = generate(nnet, request, organized)
    optimized = optimize(generated)
    parts = {
        "request": "".join(f"request: {line}\n" for line in str(request).splitlines()),
        "graph": f"graph: {graph.num_cindexes} cindexes, {len(graph.dependencies[1])} dependencies (2.000 s)\n",
        "--graph": f"{graph.text()}\n",
        "schedule": f"schedule: {organized.summary()} (2.000 s)\n",
        "--schedule": f"{organized.text()}\n",
        "commands": f"commands: {len(generated.commands)} before optimization (2.000 s)\n",
        "optimized": f"optimized: {len(optimized.commands)} commands (2.000 s)\n",
        "text": f"{grouped_commands(optimized, nnet)}\n",
    }
    for extra in ([], ["--graph"], ["--schedule"]):
        outcome = cli.good("show-computation", "--backward", "--output=output=0:1", *extra, "net.config")
        shown = {name: text for name, text in parts.items() if not name.startswith("--") or name in extra}
        assert outcome.out == "".join(shown.values())
    outcome = cli.good("show-computation", "--backward", "--output=output=0:1", "--optimize=false", "net.config")
    assert outcome.out.endswith(parts["commands"] + grouped_commands(generated, nnet) + "\n")
    spelt = ("-O0", "--optimization.level=0")
    no_passes = [cli.good("show-computation", "--output=output=0:1", each, "net.config").out for each in spelt]
    assert no_passes[0] == no_passes[1]
    assert cli.good("show-computation", "--output=output=0:1", "net.config").out != no_passes[0]
    assert "9 is not in the range 0<=x<=4" in cli("show-computation", "--optimization.level=9", "net.config").err


def test_times_of_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    nnet = Nnet.from_config(CONFIG)
    for backward in (False, True):
        request = module.request_of_times(nnet, (), ("output=0",), 1, backward)
        computation = optimize(generate(nnet, request, schedule(nnet, build_graph(nnet, request))))
        seconds = module._seconds(computation, nnet)
        assert set(seconds) <= set(range(len(computation.commands)))
        assert any(type(computation.commands[number]).__name__ == "Propagate" for number in seconds)
        backprops = [number for number in seconds if "Backprop" in type(computation.commands[number]).__name__]
        assert bool(backprops) == backward


def test_a_family_is_printed_with_its_parameters(cli: Cli) -> None:
    Path("net.config").write_text(LOOKAHEAD)
    nnet = Nnet.from_config(LOOKAHEAD)
    out = cli.good("show-computation", "--family", "--num-sequences", "5", "net.config").out
    request = module.request_of_times(nnet, (), (), 5, False, frames=200)
    assert (
        out
        == "".join(f"request: {line}\n" for line in str(request).splitlines()) + f"{compile_family(nnet, request)}\n"
    )
    failed = cli("show-computation", "--family", "--output=output=0:3", "net.config")
    assert failed.status == 1
    assert "too short to tell how longer ones go on: ask for more frames" in failed.err
