"""Verbs of speakers: wrong usage."""

from __future__ import annotations

import pytest

from tests.cli.run_command import Cli


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("ivector-mean", "a"), "give a table and a file, or speakers"),
        (("ivector-mean", "a", "b", "c", "d", "e"), "give a table and a file, or speakers"),
        (("ivector-subtract-global-mean", "a"), "give a table and the table to write"),
        (("verify", "model", "test.wav"), "give a test and at least one enrolled recording"),
        (("ivector-copy-plda", "--smoothing=2", "a", "b"), "--smoothing"),
        (("ivector-plda-scoring-dense", "--target-energy=0", "a", "b", "c", "d"), "--target-energy"),
        (("compute-vad", "--vad-proportion-threshold=1", "a", "b"), "--vad-proportion-threshold"),
        (("extract-segments", "--min-segment-length=-1", "a", "b", "c"), "--min-segment-length"),
        (("agglomerative-cluster", "a", "b"), "Missing argument"),
    ],
)
def test_wrong_usage_is_said(cli: Cli, command: tuple[str, ...], why: str) -> None:
    outcome = cli(*command)
    assert outcome.status == 2
    assert why in outcome.err
