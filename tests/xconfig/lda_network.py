"""An xconfig with a matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nnet3.kaldi_io import Writer

XCONFIG = """
input name=input dim=3
fixed-affine-layer name=lda input=Append(-1,0) affine-transform-file=configs/lda.mat dim=4
relu-batchnorm-layer name=t1 dim=8
output-layer name=output dim=5 param-stddev=1.0 bottleneck-dim=3
"""

LDA = np.arange(28, dtype=np.float32).reshape(4, 7)


def write_matrix(path: Path, matrix: np.ndarray) -> None:
    writer = Writer(True)
    writer.header()
    writer.matrix(matrix)
    writer.write_to(path)
