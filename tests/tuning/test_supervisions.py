"""Examples of aligned utterances: sequences for LF-MMI, pdfs for cross-entropy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.chain import ChainObjective, chain_minibatch
from nnet3.kaldi_io import load_fst
from nnet3.options import ChainOptions, ChunkOptions
from nnet3.speech.tuning.speech_aligner import AlignedSpeech
from nnet3.speech.tuning.supervisions import ChainSupervision, Cutting, FrameSupervision
from nnet3.training.chain.denominator import load_denominator
from nnet3.training.train.compute_prob import evaluated
from tests.asr.small_model import FEATURES, IVECTOR, acoustic_model
from tests.asr.toy_phones import ids_of_phones
from tests.seeds import RANDOM

pytest.importorskip("kaldifst")
FACTOR, PERIOD = 3, 10
MODEL = acoustic_model()
PATHS = [
    ids_of_phones(MODEL.transition_model, (1, 4), (2, 7), (1, 3), (3, 6), (1, 2)),
    ids_of_phones(MODEL.transition_model, (1, 2), (3, 9), (1, 4), (2, 5), (1, 4)),
]


def cutting(*lengths: int) -> Cutting:
    left, right = MODEL.left_context + 1, MODEL.right_context + 1
    return Cutting(ChunkOptions(lengths, 0, left, right, frame_subsampling_factor=FACTOR), PERIOD, 0)


def speech(path: list[int]) -> AlignedSpeech:
    frames = FACTOR * len(path)
    ivectors = RANDOM.normal(size=(-(-frames // PERIOD), IVECTOR)).astype(np.float32)
    features = RANDOM.normal(size=(frames, FEATURES)).astype(np.float32)
    return AlignedSpeech(features, ivectors, np.array(path, np.int32))


def test_sequences_are_among_those_of_the_denominator(tmp_path: Path) -> None:
    supervision = ChainSupervision(MODEL, cutting(30, 21), tmp_path)
    supervision.prepare(np.array(path) for path in PATHS)
    examples = [each for number, path in enumerate(PATHS) for each in supervision.examples(f"u{number}", speech(path))]
    assert len(examples) > 3
    graph = load_fst(str(tmp_path / "den.fst"))
    assert graph.num_states > 1
    network = MODEL.copy().nnet
    for parameter in network.components["last"].parameters().values():
        parameter.mul_(0.1)
    denominator = load_denominator(str(tmp_path / "den.fst"), network, 0.1)
    objective = ChainObjective(denominator, ChainOptions())
    minibatches = [chain_minibatch(example, network.input_dims, key) for key, example in examples]
    stats = evaluated(network, minibatches, objective).stats["output"]
    assert stats.average < 0  # a part of all sequences is less likely than all
    assert stats.weight == sum(len(example.outputs[0].indexes) for _, example in examples)
    assert supervision.settings["objective"] == {
        "kind": "chain",
        "den-fst": str(tmp_path / "den.fst"),
        "xent-regularize": 0.0,  # there is no node output-xent
    }


def test_a_chunk_has_the_pdfs_of_its_rows(tmp_path: Path) -> None:
    supervision = FrameSupervision(MODEL.transition_model, cutting(21))
    supervision.prepare([])
    path = PATHS[0]
    for key, example in supervision.examples("u", speech(path)):
        first = int(key.removeprefix("u-")) // FACTOR
        targets = example.io("output").matrix.dense()
        expected = MODEL.transition_model.pdf(np.array(path))[first : first + 7]
        np.testing.assert_array_equal(targets.argmax(1), expected)
        np.testing.assert_array_equal(targets.sum(1), targets.max(1))


@pytest.mark.parametrize("kind", ["chain", "frames"])
def test_a_short_utterance_gives_nothing(tmp_path: Path, kind: str) -> None:
    supervision = (
        ChainSupervision(MODEL, cutting(30), tmp_path)
        if kind == "chain"
        else FrameSupervision(MODEL.transition_model, cutting(30))
    )
    supervision.prepare(np.array(path) for path in PATHS)
    assert list(supervision.examples("u", speech(PATHS[0][:9]))) == []
