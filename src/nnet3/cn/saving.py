"""Saving and loading of networks: one safetensors file, with the graph as readable text in the header.

`strings model.cn | head` shows the graph. Nothing in a file is executed: a file is a JSON header, numbers, and lines
naming known node types.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import numpy as np
import torch

from nnet3.base.kaldi_io.files import check_is_path, write_atomically
from nnet3.cn.network import Network
from nnet3.cn.network_state import DTYPES
from nnet3.cn.text_form import from_text, to_text
from nnet3.errors import ModelFormatError, check_kind
from nnet3.training.train.running_state import StoredStatistic

try:
    from safetensors import SafetensorError, safe_open
    from safetensors.numpy import save as safetensors_bytes
except ImportError as _error:  # pragma: no cover
    _missing: ImportError | None = _error
else:
    _missing = None

_GRAPH = "computational_network"
_STATISTICS = "statistics_computed"
_LAYOUT = "layout"
_DTYPE = "dtype"


def save(network: Network, path: str | os.PathLike[str]) -> None:
    """Writes graph, parameters and statistics, (rows, columns) each, and the network's layout and type.

    Equal networks give equal bytes. The file appears whole or not at all.
    """
    _need_safetensors()
    check_kind(network, Network, "what is saved", "a network")
    arrays = {network.names[node]: np.ascontiguousarray(node.numbers.cpu().numpy().T) for node in network.stored}
    if network.dtype == torch.float64:  # the text has components as Kaldi writes them, in float32
        arrays |= {name: each.copy().detach().cpu().numpy() for name, each in _of_components(network).items()}
    computed = [network.names[node] for node in network._nodes.statistics if node.is_computed]
    metadata = {_GRAPH: to_text(network), _STATISTICS: " ".join(computed), _LAYOUT: network.layout}
    metadata[_DTYPE] = str(network.dtype).removeprefix("torch.")
    data = safetensors_bytes(arrays, metadata=metadata)
    write_atomically(path, _in_one_order(data))


def _in_one_order(data: bytes) -> bytes:
    """Returns the file with a sorted header: safetensors writes the entries of metadata in any order."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8:end]), sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[end:]


def load(path: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> Network:
    """Returns the network written by `save`, on `device`. Raises ModelFormatError for a damaged or a foreign file."""
    _need_safetensors()
    check_is_path(path, "a network")
    source = os.fspath(path)
    try:
        with safe_open(source, framework="numpy") as file:
            metadata = file.metadata() or {}
            if _GRAPH not in metadata:
                raise ModelFormatError("no computational network in this safetensors file", source)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelFormatError(f"cannot be read: {error}", source) from None
    network = from_text(metadata[_GRAPH], source, max_numbers=sum(array.size for array in arrays.values()))
    network.to(_dtype_of(metadata, arrays, source), device)
    wanted = {network.names[node]: node for node in network.stored}
    of_components = {} if set(arrays) <= set(wanted) else _of_components(network)
    if set(arrays) != {*wanted, *of_components}:
        different = ", ".join(sorted(set(arrays) ^ {*wanted, *of_components}))
        raise ModelFormatError(f"the numbers do not belong to the graph: {different}", source)
    computed = set(metadata.get(_STATISTICS, "").split())
    for name, node in wanted.items():
        array = arrays[name]
        if array.shape != (node.shape.rows, node.shape.cols) or array.dtype.kind != "f":
            raise ModelFormatError(f"'{name}': expected {node.shape}, got {array.shape} of {array.dtype}", source)
        node.value = array
    for name, held in of_components.items():
        shape = tuple(held.copy().shape)
        if arrays[name].shape != shape or arrays[name].dtype.kind != "f":
            raise ModelFormatError(f"'{name}': expected {shape}, got {arrays[name].shape}", source)
        held.set(torch.as_tensor(arrays[name]))
    for statistic in network._nodes.statistics:
        statistic.is_computed = network.names[statistic] in computed
    network.layout = "rows" if metadata.get(_LAYOUT) == "rows" else "columns"
    return network


def _of_components(network: Network) -> dict[str, StoredStatistic]:
    """Returns the parameters, constants and statistics of component nodes, by NODE.NAME."""
    return {
        f"{network.names[node]}.{prefix}{name}": StoredStatistic(part, name)
        for node, operation in network._nodes.components
        for prefix, part in operation.component.leaves()
        for name in (*part.parameter_names, *part.constant_names, *part.statistic_names)
    }


def _dtype_of(metadata: Mapping[str, str], arrays: Mapping[str, np.ndarray], source: str) -> torch.dtype:
    """Returns the type of a file's network; where an old file does not say, that of all its arrays."""
    known = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES}
    in_arrays = "".join({str(array.dtype) for array in arrays.values()})
    name = metadata.get(_DTYPE, in_arrays if in_arrays in known else "float32")
    if name not in known:
        raise ModelFormatError(f"expected a network of {', '.join(known)}, got {name[:40]!r}", source)
    return known[name]


def _need_safetensors() -> None:
    if _missing is not None:
        raise ImportError("saving and loading need safetensors: pip install safetensors") from _missing
