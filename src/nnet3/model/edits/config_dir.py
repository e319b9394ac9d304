"""Makes the folder of configs that Kaldi's recipes make of an xconfig: configs, networks, contexts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nnet3.base.kaldi_io.files import write_atomically
from nnet3.errors import ConfigError, NetworkError
from nnet3.model.components.random_source import RandomSource
from nnet3.model.edits.edits import apply_edits, edits_from_option
from nnet3.model.nnet.network import Nnet
from nnet3.model.structure.parts import NetworkParts
from nnet3.model.xconfig.expand import ExpandedXconfig, expand_xconfig
from nnet3.model.xconfig.expansion import CONFIGS, FINAL, INIT, REF, MatrixFile
from nnet3.model.xconfig.network_parts import apply_expanded, known_nodes
from nnet3.model.xconfig.statements import OutputNodeStatement

_ABOUT = {
    "xconfig": "The xconfig that the other files in this folder are made of.",
    "xconfig.expanded.1": "The xconfig with the values of all keys.",
    "xconfig.expanded.2": "The xconfig with the values of all keys and inputs in normal form.",
    "init.config": "The spliced input alone, to gather statistics for an LDA-like transform.",
    "ref.config": "The whole network with random transforms instead of matrices from files, to find its context.",
    "final.config": "The whole network.",
}


@dataclass(frozen=True)
class ConfigDir:
    """The contents of a folder of configs: texts and networks by file name, matrices by path, warnings."""

    texts: dict[str, str]
    networks: dict[str, Nnet]
    matrices: list[MatrixFile]
    left_context: int
    right_context: int
    warnings: list[str] = field(default_factory=list)

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Writes all files into a folder, made if need be, and the matrices to where the xconfig says.

        An earlier `init.config` that no longer belongs there is removed.
        """
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        _write_matrices(self.matrices)
        for stale in ("init.config", "init.raw"):
            if stale not in {*self.texts, *self.networks}:
                (path / stale).unlink(missing_ok=True)
        for name, text in self.texts.items():
            write_atomically(path / name, text.encode())
        for name, network in self.networks.items():
            network.save(path / name)


def make_config_dir(
    text: str, source: str = "<xconfig>", *, existing: Nnet | None = None, edits: str = "", command: str = ""
) -> ConfigDir:
    """Returns the files that Kaldi's `xconfig_to_configs.py` makes of an xconfig; nothing is written.

    `existing` is a network whose nodes inputs may refer to; `edits` (in the form of an option) are applied to the
    network before its context is found. `command` is told in the first lines of each file. Raises ConfigError, and
    NetworkError if the network has no left and right context.
    """
    parts = existing.parts if existing is not None else NetworkParts()
    expanded = expand_xconfig(text, source, known_nodes(parts))
    configs = list(_configs(expanded, source))
    networks: dict[str, Nnet] = {}
    warnings: list[str] = []
    for which in (which for which in configs if which != FINAL):
        made, found = apply_expanded(parts, expanded, RandomSource(0), {}, which)
        networks[f"{which}.raw"] = Nnet(made.nodes, made.components)
        warnings += found if which == REF else []
    left, right = _contexts(networks, edits)
    texts = {
        "xconfig": "".join(f"{line.strip()}\n" for line in text.splitlines()),
        "xconfig.expanded.1": "".join(f"{line}\n" for line in expanded.layer_lines()),
        "xconfig.expanded.2": "".join(f"{line}\n" for line in expanded.layer_lines(normal=True)),
        **{f"{which}.config": expanded.config(which) for which in configs},
    }
    texts = {name: _header(name, command) + contents for name, contents in texts.items()}
    texts["vars"] = f"model_left_context={left}\nmodel_right_context={right}\n"
    return ConfigDir(texts, networks, _matrix_files(expanded), left, right, warnings)


def write_final_config(text: str, source: str, path: str | os.PathLike[str], *, existing: Nnet | None = None) -> None:
    """Writes the config of the whole network alone, and the matrices to where the xconfig says.

    It may have no output: it may be meant to be read on top of `existing`. Raises ConfigError.
    """
    expanded = expand_xconfig(text, source, known_nodes(existing.parts) if existing is not None else ())
    _write_matrices(_matrix_files(expanded))
    write_atomically(path, (_header("final.config", "") + expanded.config()).encode())


def _matrix_files(expanded: ExpandedXconfig) -> list[MatrixFile]:
    return [matrix for layer in expanded.layers for matrix in layer.expansion.matrix_files]


def _write_matrices(matrices: list[MatrixFile]) -> None:
    for matrix in matrices:
        write_atomically(matrix.path, _matrix_text(matrix.values).encode())


def _configs(expanded: ExpandedXconfig, source: str) -> Iterator[str]:
    """Yields the names of the configs, `init` only if it has an output. Raises ConfigError if another has none."""
    for which in CONFIGS:
        if any(isinstance(statement, OutputNodeStatement) for _, statement in expanded.statements(which)):
            yield which
        elif which != INIT:
            raise ConfigError(f"{source}: the xconfig has no output: it needs an output-layer (or output)")


def _contexts(networks: Mapping[str, Nnet], edits: str) -> tuple[int, int]:
    """Returns left and right context of the whole network. Raises NetworkError if `init.config` needs more."""
    network = networks["ref.raw"].copy()
    if edits.strip():
        apply_edits(network, edits_from_option(edits), "--nnet-edits")
    left, right = network.left_context, network.right_context
    first = networks.get("init.raw")
    if first is not None and (first.left_context > left or first.right_context > right):
        raise NetworkError(
            f"init.config needs a context of {first.left_context} frames to the left and {first.right_context} to the "
            f"right, more than the whole network, which needs {left} and {right}: if the output has an output-delay, "
            "give the fixed-affine-layer a delay= of as many frames"
        )
    return left, right


def _header(name: str, command: str) -> str:
    made = command or "nnet3 xconfig-to-configs"
    return f"# {name}: {_ABOUT[name]}\n# Made by\n# {' '.join(made.split())}\n\n"


def _matrix_text(matrix: np.ndarray) -> str:
    """Kaldi's text form with all digits; the last column, the bias, is an integer."""
    rows = (" ".join([*map(str, row[:-1]), "0"]) for row in matrix.tolist())
    return "[ " + "\n".join(rows) + " ]"
