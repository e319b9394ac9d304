"""A small speaker model: its vectors are an affine function of the mean of the frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nnet3.model.nnet import Nnet
from tests.asr.small_model import write_matrix
from tests.asr.small_recognizer import RATE
from tests.seeds import RANDOM

DIM, FEATURES = 4, 5


def write_speaker_model(folder: Path) -> Path:
    folder.mkdir()
    (folder / "mfcc.conf").write_text(
        f"--sample-frequency={RATE}\n--num-mel-bins=8\n--num-ceps={FEATURES}\n--use-energy=false\n--dither=0\n"
    )
    network().save(folder / "final.ext.raw")
    write_matrix(RANDOM.normal(size=(3, DIM)).astype(np.float32), folder / "transform.mat")
    (folder / "mean.vec").write_text("[ 0.1 0.2 -0.1 0 ]\n")
    return folder


def network() -> Nnet:
    return Nnet.from_config(
        f"""input-node name=input dim={FEATURES}
        component name=extract type=StatisticsExtractionComponent input-dim={FEATURES} include-variance=false
        component name=pool type=StatisticsPoolingComponent input-dim={FEATURES + 1} left-context=0 right-context=10000
        component name=last type=AffineComponent input-dim={FEATURES} output-dim={DIM}
        component-node name=extract component=extract input=input
        component-node name=pool component=pool input=extract
        component-node name=last component=last input=pool
        output-node name=output input=last
        """
    )
