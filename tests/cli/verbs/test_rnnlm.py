"""Verbs of RNN language models: options of network and embedding side by side, numbers of arguments."""

from __future__ import annotations

import pytest

from nnet3.cli.verb import find_program, find_verb
from tests.cli.run_command import Cli


def test_options_of_network_and_embedding_have_kaldis_names() -> None:
    names = {name for parameter in find_verb("rnnlm-train").params for name in parameter.opts}
    common = ("momentum", "max-param-change", "backstitch-training-scale", "backstitch-training-interval")
    assert {f"--{part}.{name}" for part in ("rnnlm", "embedding") for name in common} <= names
    assert {"--rnnlm.l2-regularize-factor", "--embedding.l2-regularize", "--embedding.learning-rate"} <= names
    assert {"--den-term-limit", "--max-logprob-elements", "--srand", "--read-sparse-word-features"} <= names


@pytest.mark.parametrize(
    "program", ["choose_features.py", "get_word_features.py", "rnnlm-train", "rnnlm-sentence-probs"]
)
def test_programs_have_kaldis_names(program: str) -> None:
    assert find_program(program) is not None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rnnlm-get-egs text", "give sentences and a table to write"),
        ("rnnlm-get-egs a b c d ark:e", "give sentences and a table to write"),
        ("rnnlm-get-sampling-lm text", "give sentences and a file to write"),
        ("rnnlm-get-sampling-lm a b c d", "give sentences and a file to write"),
        ("rnnlm-train --read-rnnlm=a --write-rnnlm=b --read-embedding=c", "Missing argument"),
        ("rnnlm-train --embedding.momentum=1.5 ark:egs", "Invalid value for '--embedding.momentum'"),
        ("rnnlm-sentence-probs a b", "Missing argument 'TEXT'"),
    ],
)
def test_wrong_usage_is_said(line: str, message: str, cli: Cli) -> None:
    outcome = cli(*line.split())
    assert outcome.status == 2
    assert message in outcome.err
