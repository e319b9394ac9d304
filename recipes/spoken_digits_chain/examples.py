"""Chain examples: chunks of strings, each with all sequences of pdfs that are right there."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import nnet3
from nnet3.chain import CHAIN_EXAMPLES, load_fst
from nnet3.examples import ChunkOptions, example_writer
from nnet3.options import ChainMakingOptions, SupervisingOptions, Tolerances
from nnet3.training.chain.graphs.normalization import NormalizationWeights
from nnet3.training.chain.graphs.phone_hmms import PhoneHmms
from nnet3.training.chain.graphs.supervising import supervise
from nnet3.training.chain.graphs.timed_phones import phones_of_durations
from nnet3.training.chain.making import ChainExampleMaker, Utterance
from recipes.spoken_digits_chain.phones import Hmms

FACTOR = 3  # frames of input for each of output
CHUNKS = 90, 60, 45  # frames
TOLERANCE = 8  # frames by which a phone may come earlier or later than thought


def write_examples(
    speech: list[tuple[str, np.ndarray, np.ndarray]], hmms: Hmms, graphs: Path, nnet: nnet3.Nnet, path: Path
) -> None:
    """An archive of chunks; they have a frame more of context than the network needs, to be shifted by."""
    room = FACTOR // 2
    options = ChunkOptions(
        num_frames=CHUNKS,
        left_context=nnet.left_context + room,
        right_context=nnet.right_context + room,
        frame_subsampling_factor=FACTOR,
    )
    weights = NormalizationWeights(load_fst(str(graphs / "normalization.fst")))
    maker = ChainExampleMaker(ChainMakingOptions(options), weights)
    supervising = SupervisingOptions(Tolerances(TOLERANCE, TOLERANCE, FACTOR))
    phone_hmms = PhoneHmms(hmms.tree, hmms.model)
    with example_writer(f"ark:{path}", CHAIN_EXAMPLES) as table:
        for key, rows, alignment in speech:
            supervision = supervise(phones_of_durations(alignment), phone_hmms, supervising)
            for name, example in maker.make(Utterance(key, rows), supervision):
                table.write(name, example)
