"""Golden nnet3 networks as computational networks: the same numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3 import cn
from nnet3.errors import NetworkError
from shared_data import golden_cases, needs_shared

LEAST_COMPARED = 12


def as_sequences(indexes: np.ndarray, matrix: np.ndarray) -> tuple[cn.Sequences, int] | None:
    """The rows of an input as sequences that begin at the same time without gaps; None if they are none."""
    values = []
    first = int(indexes[:, 1].min())
    for n in np.unique(indexes[:, 0]):
        rows = np.flatnonzero(indexes[:, 0] == n)
        rows = rows[np.argsort(indexes[rows, 1])]
        if indexes[rows, 2].any() or indexes[rows, 1].tolist() != list(range(first, first + len(rows))):
            return None
        values.append(matrix[rows].T)
    return cn.sequences(values), first


def compare(case: Path, *, with_golden: bool = True) -> bool:
    """Whether the case could be compared; asserts that it agrees, with the golden output or with ours in test mode."""
    nnet = nnet3.load(case / "model.raw")
    if not with_golden:
        nnet.set_test_mode()
    try:
        net = cn.from_nnet(nnet)
    except NetworkError:
        return False
    request, arrays = json.loads((case / "request.json").read_text()), np.load(case / "arrays.npz")
    inputs, firsts = {}, set()
    for io in request["inputs"]:
        given = as_sequences(np.array(io["indexes"]), arrays[f"input_{io['name']}"])
        if given is None:
            return False
        inputs[io["name"]] = given[0]
        firsts.add(given[1])
    if len(firsts) != 1 or len({value.lengths for value in inputs.values()}) != 1:
        return False
    first = firsts.pop()
    for io in request["outputs"]:
        indexes = np.array(io["indexes"])
        if indexes[:, 2].any():
            return False
        values = net.evaluate(io["name"], inputs)
        numbers = {n: place for place, n in enumerate(np.unique(np.array(request["inputs"][0]["indexes"])[:, 0]))}
        ours = np.stack([values[numbers[n]][:, t - first] for n, t, _ in indexes.tolist()])
        theirs = arrays[f"output_{io['name']}"] if with_golden else run(nnet, request, arrays)[io["name"]]
        assert np.linalg.norm(ours - theirs) <= 1e-4 * np.linalg.norm(theirs), (case.name, io["name"])
    return True


def run(nnet: nnet3.Nnet, request: dict, arrays) -> dict[str, np.ndarray]:
    """The outputs of the nnet3 network itself."""

    def specifications(kind: str) -> list[nnet3.IoSpecification]:
        return [nnet3.IoSpecification(io["name"], np.array(io["indexes"])) for io in request[kind]]

    asked = nnet3.ComputationRequest(inputs=specifications("inputs"), outputs=specifications("outputs"))
    computer = nnet3.NnetComputer(nnet3.compile(nnet, asked), nnet)
    for io in request["inputs"]:
        computer.accept_input(io["name"], arrays[f"input_{io['name']}"])
    computer.run()
    return {io["name"]: computer.get_output(io["name"]).numpy() for io in request["outputs"]}


@needs_shared
@pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics")
def test_golden_recipes_in_test_mode() -> None:
    compared = [case.name for case in golden_cases("recipe") if compare(case, with_golden=False)]
    assert len(compared) >= 3, compared


@needs_shared
def test_golden_networks() -> None:
    compared = [case.name for case in golden_cases("random") if compare(case)]
    assert len(compared) >= LEAST_COMPARED, compared


def test_what_has_no_counterpart_is_named() -> None:
    config = """
input-node name=input dim=3
component name=a type=TanhComponent dim=3
component-node name=a component=a input=Round(input, 3)
output-node name=output input=a
"""
    with pytest.raises(NetworkError, match=r"'a_input': Round\(input, 3\) has no counterpart"):
        cn.from_nnet(nnet3.Nnet.from_config(config))
