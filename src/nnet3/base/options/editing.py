"""Options of changes to networks."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.base.options.declaring import Options, option
from nnet3.base.text.values import Boolean


@dataclass(frozen=True)
class CollapseOptions(Options):
    """Merging neighbouring components. Batch-norm is merged by default, other than in Kaldi."""

    dropout: bool = option(False, Boolean(), "Merge dropout into what reads it.")
    batchnorm: bool = option(True, Boolean(), "Merge batch-norm into what reads it.")
    affine: bool = option(True, Boolean(), "Merge affine components into affine components that read them.")
    scale: bool = option(True, Boolean(), "Merge fixed scales into what reads them.")
