"""Runs of Kaldi's rnnlm-train in the golden data: their command lines, and the same done here."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nnet3 import Nnet
from nnet3.base.options.declaring import Options, declared
from nnet3.base.options.rnnlm import EmbeddingOptions, RnnlmObjectiveOptions, RnnlmStepOptions
from nnet3.kaldi_io import load_matrix
from nnet3.model.nnet import load_nnet
from nnet3.training.rnnlm.example import RNNLM_EXAMPLES
from nnet3.training.rnnlm.trainer import RnnlmTrainer
from nnet3.training.rnnlm.word_features import read_word_features
from tests.rescoring_data import RNNLM_CASES


@dataclass(frozen=True)
class Run:
    """A run of rnnlm-train on the first `count` minibatches of a case."""

    case: Path
    count: int
    options: dict[str, str]

    def __str__(self) -> str:
        return f"{self.case.name}-{self.count}"

    def path(self, option: str) -> Path:
        return self.case / self.options[option]

    def trained(self) -> tuple[Nnet, torch.Tensor, RnnlmTrainer, list[str]]:
        """Returns network and embedding after these minibatches, the trainer, and its log."""
        given = dict(self.options)
        step = _taken(RnnlmStepOptions, "rnnlm.", given)
        own, objective = _taken(EmbeddingOptions, "embedding.", given), _taken(RnnlmObjectiveOptions, "", given)
        assert {name.split("-")[0] for name in given} == {"read", "write"}
        nnet, embedding = load_nnet(self.path("read-rnnlm")), torch.from_numpy(load_matrix(self.path("read-embedding")))
        name = given.get("read-sparse-word-features")
        features = read_word_features(self.case / name, len(embedding)) if name else None
        lines: list[str] = []
        trainer = RnnlmTrainer(
            *(nnet, embedding, features, step, own if "write-embedding" in given else None, objective), say=lines.append
        )
        with RNNLM_EXAMPLES.open(f"ark:{self.case / 'egs.ark'}") as table:
            for _, example in islice(table, self.count):
                assert trainer.train_minibatch(example).skipped is None
        trainer.log.finish()
        return nnet, embedding, trainer, lines


def _taken(kind: type[Options], prefix: str, given: dict[str, str]) -> Any:
    """Returns the options of a class, taken out of those that are given."""
    flags = {f"{prefix}{item.flag}": item for item in declared(kind)}
    return kind(**{item.name: item.kind.read(given.pop(flag)) for flag, item in flags.items() if flag in given})


def runs() -> list[Run]:
    """Returns all runs whose networks are there."""
    found = []
    for case in RNNLM_CASES:
        for line in (case / "train.cmd").read_text().splitlines():
            words = shlex.split(line, comments=True)
            options = dict(word[2:].split("=", 1) for word in words[1:] if word.startswith("--"))
            count = re.match(r"(\d+)\.raw$", options.get("write-rnnlm", ""))
            if words and words[0] == "rnnlm-train" and count and (case / count[0]).exists():
                found.append(Run(case, int(count[1]), options))
    return found


def change(nnet: Nnet, start: Nnet, name: str) -> np.ndarray:
    """Returns the change of a component's parameters, (parameters,)."""
    one, other = (
        np.concatenate([each.numpy().ravel() for each in net.components[name].parameters().values()]).astype(float)
        for net in (nnet, start)
    )
    return one - other
