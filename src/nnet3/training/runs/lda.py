"""Estimates the LDA-like transform that an xconfig wants from a missing file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath

import numpy as np

from nnet3.base.kaldi_io.load import load_matrix
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.training import FeatureTransformOptions
from nnet3.errors import Nnet3Error, TrainingError
from nnet3.model.edits.config_dir import make_config_dir
from nnet3.model.nnet import Nnet
from nnet3.model.xconfig.expand import expand_xconfig, is_xconfig
from nnet3.training.runs.beginning import config_text
from nnet3.training.runs.interfaces import DataKind
from nnet3.training.runs.process_group import ProcessGroup
from nnet3.training.runs.settings import RunSettings
from nnet3.training.train.lda_stats import LdaStats, accumulated, beside, estimate_transform


@dataclass(frozen=True)
class WantedTransform:
    """`path`: the file named by an xconfig; `dim`: rows of its matrix; `nnet`: its `output` is to be transformed."""

    path: str
    dim: int
    nnet: Nnet


def wanted_transform(settings: RunSettings) -> WantedTransform | None:
    """Returns the transform missing in the xconfig of a run, None for none."""
    text, source = config_text(settings), settings.model.file
    if text is None or not is_xconfig(text):
        return None
    for each in expand_xconfig(text, source).layers:
        layer = each.layer
        if layer.type.name == "fixed-affine-layer" and layer["write-init-config"]:
            path = layer["affine-transform-file"]
            if not os.path.exists(path):
                return WantedTransform(path, layer["dim"], make_config_dir(text, source).networks["init.raw"])
    return None


def estimated_matrices(
    settings: RunSettings, kind: DataKind, group: ProcessGroup, *, goes_on: bool
) -> dict[str, np.ndarray]:
    """Returns the transform missing in the xconfig, by the name of its file, or nothing.

    The first process estimates the transform and writes it into the run's folder, where a resumed run finds it.
    """
    wanted = wanted_transform(settings) if settings.lda.estimate and settings.data.train else None
    if wanted is None:
        return {}
    path = Path(settings.output.folder) / PurePath(wanted.path).name
    if goes_on and not path.exists():
        return {}  # it began with the identity
    if group.is_first and not goes_on:
        _write(path, _estimated(settings, kind, wanted))
    return {wanted.path: group.tell(load_matrix(path) if group.is_first else None)}


def identity(matrices: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Returns a digest of each matrix, by its name in a checkpoint."""
    return {
        f"model.{path}": hashlib.blake2b(matrix.tobytes(), digest_size=8).hexdigest()
        for path, matrix in matrices.items()
    }


def _estimated(settings: RunSettings, kind: DataKind, wanted: WantedTransform) -> np.ndarray:
    section = settings.lda
    options = FeatureTransformOptions(
        dim=wanted.dim,
        within_class_factor=section.within_class_factor,
        max_singular_value=section.max_singular_value,
    )
    try:
        return estimate_transform(_statistics(settings, kind, wanted.nnet), options).matrix
    except Nnet3Error as error:
        raise TrainingError(
            f"'{wanted.path}' cannot be estimated: {error}; give the file, or say estimate = false in [lda]: then the "
            "identity takes its place"
        ) from None


def _statistics(settings: RunSettings, kind: DataKind, nnet: Nnet) -> LdaStats:
    """Returns statistics of the first examples of every output node; classes of different nodes are kept apart."""
    section, found, left = settings.lda, dict[str, LdaStats](), dict[str, int]()
    for output, examples in kind.labelled(settings.data, nnet):
        most = left.get(output, section.examples)
        own, count = accumulated(nnet, islice(examples, most), section.rand_prune)
        left[output] = most - count
        if own is not None:
            found[output] = found[output] + own if output in found else own
    if not found:
        raise TrainingError("the training examples have no weight")
    return beside(list(found.values()))


def _write(path: Path, matrix: np.ndarray) -> None:
    writer = Writer.of_file(True)
    writer.matrix(matrix)
    writer.write_to(path)
