"""Reach: how far to the right outputs may look, and which outputs depend on what is there."""

from __future__ import annotations

import math
import random

import pytest

from nnet3 import Nnet
from nnet3.model.structure.reach import depends_on_what_is_there, right_reach

CONFIG = """
    input-node name=input dim=3
    input-node name=ivector dim=3
    component name=tdnn type=TdnnComponent input-dim=3 output-dim=3 time-offsets=-2,0,3
    component name=last type=NoOpComponent dim=3
    component-node name=tdnn component=tdnn input=input
    component-node name=last component=last input={input}
    output-node name=output input=last
"""
STATISTICS = """
    input-node name=input dim=3
    component name=extract type=StatisticsExtractionComponent input-dim=3 output-period=5 include-variance=false
    component name=pool type=StatisticsPoolingComponent input-dim=4 input-period=5 left-context=10 right-context={right}
    component-node name=extract component=extract input=input
    component-node name=pool component=pool input=extract
    output-node name=output input=Round(pool, 5)
"""


@pytest.mark.parametrize(
    ("described", "reach", "depends"),
    [
        ("tdnn", 3, False),
        ("Sum(tdnn, ReplaceIndex(ivector, t, 0))", 3, False),
        ("Sum(tdnn, Offset(Round(tdnn, 4), 2))", 5, False),
        ("Switch(tdnn, Offset(tdnn, 2))", 5, False),
        ("Sum(tdnn, IfDefined(Offset(tdnn, 5)))", 8, True),
        ("Failover(Offset(tdnn, 6), tdnn)", 9, True),
        ("Sum(tdnn, IfDefined(Offset(last, -3)))", 3, True),
        ("Sum(tdnn, IfDefined(Offset(last, 1)))", math.inf, True),
        ("Sum(tdnn, ReplaceIndex(input, t, 7))", math.inf, True),
        ("Sum(input, IfDefined(ReplaceIndex(ivector, t, 0)))", 0, True),
    ],
)
def test_reach_of_descriptors(described: str, reach: float, depends: bool) -> None:
    nnet = Nnet.from_config(CONFIG.format(input=described))
    assert right_reach(nnet.parts) == reach
    assert depends_on_what_is_there(nnet.parts) == depends
    assert not depends or right_reach(nnet.parts) >= nnet.right_context


@pytest.mark.parametrize(("right", "reach"), [(0, 4), (10, 14)])
def test_reach_of_statistics(right: int, reach: int) -> None:
    nnet = Nnet.from_config(STATISTICS.format(right=right))
    assert right_reach(nnet.parts) == reach
    assert depends_on_what_is_there(nnet.parts)


@pytest.mark.parametrize("seed", range(20))
def test_what_needs_all_reaches_as_far_as_its_context(seed: int) -> None:
    rng = random.Random(seed)
    source, lines = "input", ["input-node name=input dim=3"]
    for number in range(rng.randint(1, 4)):
        offsets = ",".join(map(str, sorted(rng.sample(range(-4, 5), rng.randint(1, 3)))))
        lines.append(f"component name=c{number} type=TdnnComponent input-dim=3 output-dim=3 time-offsets={offsets}")
        lines.append(f"component-node name=c{number} component=c{number} input={source}")
        source = f"Offset(c{number}, {rng.randint(-3, 3)})"
    parts = Nnet.from_config("\n".join([*lines, f"output-node name=output input={source}"]))
    assert not depends_on_what_is_there(parts.parts)
    assert max(0, right_reach(parts.parts)) == parts.right_context
