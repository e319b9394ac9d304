"""The log of nnet3-discriminative-train."""

from __future__ import annotations

from nnet3.training.discriminative.trainer import DiscriminativeLog
from nnet3.training.train.objectives import ObjectiveStats


def test_outputs_without_weight_have_averages_of_0() -> None:
    lines = list[str]()
    log = DiscriminativeLog(1, lines.append, "smbr")
    log.totals = {"output": ObjectiveStats(), "output-xent": ObjectiveStats()}
    log.finish()
    assert lines == [
        line
        for name in ("output-xent", "output")
        for line in (
            "Average num+den count of stats is 0 per frame, over 0 frames.",
            f"Overall average objective function for '{name}' is 0 over 0 frames.",
            "[this line is to be parsed by a script:] smbr-per-frame=0",
        )
    ]
