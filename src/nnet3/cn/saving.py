"""Saving and loading of networks: one safetensors file, with the graph as readable text in its header.

`strings model.cn | head` shows the graph. Nothing in a file is executed: it is a JSON header, numbers, and lines that
name known node types.
"""

from __future__ import annotations

import json
import os

import numpy as np
import torch

from nnet3.cn.network import Network
from nnet3.cn.text_form import from_text, to_text
from nnet3.errors import ModelFormatError, check_kind
from nnet3.kaldi_io.files import check_is_path, write_atomically

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


def save(network: Network, path: str | os.PathLike[str]) -> None:
    """Write graph, parameters and statistics, (rows, columns) each, and the network's layout: the same bytes for the
    same network.

    The file appears whole or not at all.
    """
    _need_safetensors()
    check_kind(network, Network, "what is saved", "a network")
    arrays = {
        network.names[node]: np.ascontiguousarray(node.memory.detach().cpu().numpy().T) for node in network.stored
    }
    computed = [network.names[node] for node in network._nodes.statistics if node.is_computed]
    metadata = {_GRAPH: to_text(network), _STATISTICS: " ".join(computed), _LAYOUT: network.layout}
    data = safetensors_bytes(arrays, metadata=metadata)
    write_atomically(path, _in_one_order(data))


def _in_one_order(data: bytes) -> bytes:
    """The file with a sorted header: safetensors writes the entries of metadata in any order."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8:end]), sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[end:]


def load(path: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> Network:
    """The network that `save` wrote. Raises ModelFormatError for a file that is damaged or is something else."""
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
    wanted = {network.names[node]: node for node in network.stored}
    if set(arrays) != set(wanted):
        different = ", ".join(sorted(set(arrays) ^ set(wanted)))
        raise ModelFormatError(f"the numbers do not belong to the graph: {different}", source)
    dtypes = {str(array.dtype) for array in arrays.values()}
    network.to({"float16": torch.float16, "float64": torch.float64}.get("".join(dtypes), torch.float32), device)
    computed = set(metadata.get(_STATISTICS, "").split())
    for name, node in wanted.items():
        array = arrays[name]
        if array.shape != (node.shape.rows, node.shape.cols) or array.dtype.kind != "f":
            raise ModelFormatError(f"'{name}': expected {node.shape}, got {array.shape} of {array.dtype}", source)
        node.value = array
    for statistic in network._nodes.statistics:
        statistic.is_computed = network.names[statistic] in computed
    network.layout = "rows" if metadata.get(_LAYOUT) == "rows" else "columns"
    return network


def _need_safetensors() -> None:
    if _missing is not None:
        raise ImportError("saving and loading need safetensors: pip install safetensors") from _missing
