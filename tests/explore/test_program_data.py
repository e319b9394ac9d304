"""What a page says of programs, graph and memory is what the compiler says."""

from __future__ import annotations

import numpy as np

import nnet3
from nnet3.engine.ir.passes.pipeline import PIPELINE
from nnet3.engine.runtime import plan
from nnet3.explore import program_data as module
from nnet3.explore.program_data import memory_data, program_data
from nnet3.options import DEFAULT_LEVEL
from tests.explore.models import lstm, request


def test_programs_are_those_of_the_passes() -> None:
    nnet = lstm()
    asked = request(nnet)
    data, computation = program_data(asked.task(nnet))
    first, *_, last = data["programs"]
    steps = nnet3.stages.schedule(nnet, nnet3.stages.build_graph(nnet, asked))
    generated = nnet3.stages.generate(nnet, asked, steps)
    texts = data["texts"]
    assert [texts[text] for text, *_ in first["commands"]] == [
        command.text(generated) for command in generated.commands
    ]
    assert first["pass"] == "as generated"
    assert last["count"] == len(computation.commands)
    assert [record["pass"] for record in data["programs"]][1:] == [
        each.name for each in PIPELINE if each.level <= DEFAULT_LEVEL
    ]
    assert any("commands" not in record for record in data["programs"])  # a pass that changed nothing
    for record in data["programs"]:
        for _, _, _, matrices in record.get("commands", []):
            assert all(texts[record["matrices"][matrix]].startswith(f"m{matrix}(") for matrix in matrices)


def test_the_graph_has_steps_and_dependencies() -> None:
    nnet = lstm()
    asked = request(nnet)
    graph = nnet3.stages.build_graph(nnet, asked)
    steps = nnet3.stages.schedule(nnet, graph)
    data = program_data(asked.task(nnet))[0]["graph"]
    assert data["counts"] == {"cindexes": 352, "dependencies": 414, "steps": 51, "epochs": 20, "sequences": 1}
    for number, step in enumerate(steps.steps):
        items = steps.items[step.node][step.first : step.first + step.num_rows]
        assert {data["step"][item] for item in items} == {number}
    given = [data["names"][node] for node in graph.node[np.array(data["step"]) == module.GIVEN]]
    assert set(given) == {"input"}
    assert len(data["epoch"]) == len(steps.steps)


def test_graphs_that_are_too_large_are_counted(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_CINDEXES", 100)
    monkeypatch.setattr(module, "MOST_COMMANDS", 400)
    nnet = lstm()
    data, _ = program_data(request(nnet).task(nnet))
    assert list(data["graph"]) == ["counts"]
    assert [record["pass"] for record in data["programs"]] == ["as generated", module.ALL_PASSES]


def test_memory_is_that_of_the_plan() -> None:
    nnet = lstm()
    computation = nnet3.compile(nnet, request(nnet))
    data, made = memory_data(computation), plan(computation)
    assert data["bytes"] == made.num_bytes
    assert sorted(block[:4] for block in data["blocks"] if block[0]) == sorted(made.spans.tolist())
    at = data["peak"]["command"]
    assert data["peak"]["bytes"] == sum(size for _, first, last, _, size in data["blocks"] if first <= at <= last)
    assert data["peak"]["bytes"] <= data["bytes"]
