"""Statistics and attention over windows that are cut off in different ways; export_onnx compares with the executor."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnet3
from tests.export.exported import Exported

STATISTICS = """
    input-node name=input dim=3
    component name=extract type=StatisticsExtractionComponent input-dim=3 input-period={0} output-period={1}
    component name=pool type=StatisticsPoolingComponent input-dim=7 input-period={1} {2}
    component-node name=extract component=extract input=input
    component-node name=pool component=pool input=extract
    output-node name=output input=Round(pool, {1})
"""
ATTENTION = """
    input-node name=input dim=8
    component name=affine type=AffineComponent input-dim=8 output-dim={0}
    component name=attention type=RestrictedAttentionComponent {1}
    component-node name=affine component=affine input=input
    component-node name=attention component=attention input=affine
    output-node name=output input=attention
"""
HEADS = "num-heads=2 key-dim=2 value-dim=3 num-left-inputs=2 num-right-inputs=1"


@pytest.mark.parametrize("periods", [(1, 1), (1, 4), (2, 4)])
@pytest.mark.parametrize(
    "pooling",
    [
        "left-context=4 right-context=8 num-log-count-features=2 output-stddevs=true",
        "left-context=40 right-context=40",
        "left-context=0 right-context=4 num-log-count-features=1",
    ],
)
def test_statistics(periods: tuple[int, int], pooling: str, tmp_path: Path) -> None:
    nnet = nnet3.Nnet.from_config(STATISTICS.format(*periods, pooling), seed=1)
    Exported(nnet, tmp_path, frames_per_chunk=12)


@pytest.mark.parametrize(
    ("more", "factor"),
    [
        ("", 1),
        ("time-stride=3", 1),
        ("time-stride=2 num-left-inputs-required=0 num-right-inputs-required=0 output-context=false", 1),
        ("num-left-inputs-required=1", 3),
        ("", 5),
    ],
)
def test_attention(more: str, factor: int, tmp_path: Path) -> None:
    nnet = nnet3.Nnet.from_config(ATTENTION.format(2 * (2 * 2 + 3 + 4), f"{HEADS} {more}"), seed=1)
    Exported(nnet, tmp_path, frames_per_chunk=30, frame_subsampling_factor=factor)
