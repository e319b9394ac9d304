"""Every xconfig of published recipes expands to what Kaldi's scripts make of it, to the letter, and compiles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3.xconfig import expand_xconfig
from tests.effort import EFFORT
from tests.shared_data import golden_cases
from tests.xconfig.config_lines import clean_lines

CASES = [*golden_cases("xconfig"), *golden_cases("bench")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_expansions_are_those_of_kaldi(case: Path) -> None:
    text = (case / "network.xconfig").read_text()
    final = expand_xconfig(text, str(case)).config()
    assert final.splitlines() == clean_lines((case / "final.config").read_text())


@pytest.mark.parametrize("case", golden_cases("xconfig")[:: 5 if EFFORT == 1 else 1], ids=lambda case: case.name)
@pytest.mark.usefixtures("undrawn")
def test_golden_networks_compile(case: Path) -> None:
    nnet = nnet3.Nnet.from_xconfig((case / "network.xconfig").read_text())
    assert [warning for warning in nnet.warnings if "identity takes its place" not in warning] == []
    times = np.array([[0, t, 0] for t in range(-nnet.left_context - 2, 6 + nnet.right_context)])
    ivector = np.zeros((1, 3), int)
    given = {name: times if name != "ivector" else ivector for name in nnet.input_names}
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification(name, indexes) for name, indexes in given.items()],
        [nnet3.IoSpecification("output", [[0, 0, 0], [0, 3, 0]], has_deriv=True)],
        need_model_derivative=True,
    )
    assert len(nnet3.compile(nnet, request).commands) > 4
