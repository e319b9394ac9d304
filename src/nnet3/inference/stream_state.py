"""States of streams as safetensors files: versioned, checked, without code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nnet3.base.text import read_json
from nnet3.errors import ExecutionError, Nnet3Error
from nnet3.inference.stream_program import StreamProgram
from nnet3.inference.stream_progress import Batch, StreamProgress
from nnet3.model.nnet.fingerprint import with_parts

_ABOUT, _FORMAT, _VERSION = "about", "nnet3 stream", 1
_COUNTS = ("number", "num_frames", "num_rows")
_STATE = "state/"


def model_digest(program: StreamProgram) -> str:
    """Returns a name for a program and its parameters: owners of equal digests can go on with a stream."""
    digest = hashlib.blake2b(digest_size=16)
    about = program.nnet.fingerprint(), program.frames_per_chunk, program.frame_subsampling_factor
    digest.update(json.dumps([*about, program.left_context, program.right_context]).encode())
    for component in with_parts(program.nnet.components.values()):
        for name, value in sorted(vars(component).items()):
            if isinstance(value, float):
                digest.update(f"{name} {value!r}".encode())
            if isinstance(value, Tensor):
                digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
                digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def to_bytes(stream: StreamProgress, model: str) -> bytes:
    """Returns a stream as a safetensors file; `model` is the digest of the program. Raises Nnet3Error."""
    safetensors = _safetensors()
    optional = {"last": stream.last, "ivector": stream.ivector, "rows": stream.ready() if stream.rows else None}
    tensors = {"frames": stream.frames} | {name: value for name, value in optional.items() if value is not None}
    if stream.batch is not None:
        columns = stream.batch.columns([stream.column])
        tensors |= {f"{_STATE}{name}": value[:, 0] for name, value in columns.items()}
    counts = {name: getattr(stream, name) for name in _COUNTS}
    about = json.dumps({"format": _FORMAT, "version": _VERSION, "model": model, **counts})
    return safetensors.torch.save(
        {name: value.detach().cpu().contiguous() for name, value in tensors.items()}, {_ABOUT: about}
    )


def from_bytes(data: bytes, model: str, stream: StreamProgress) -> None:
    """Makes a new stream go on from the state of a stream.

    Raises ExecutionError for bytes not made by `to_bytes` from a stream of the same model.
    """
    about, tensors = _parts(data)
    for name, wanted in (("format", _FORMAT), ("version", _VERSION), ("model", model)):
        if about.get(name) != wanted:
            reason = "it is of another model or other options" if name == "model" else f"expected {name} {wanted!r}"
            raise ExecutionError(f"the state of the stream cannot be used: {reason}, got {about.get(name)!r:.60}")
    counts: list[Any] = [about.get(name) for name in _COUNTS]
    if not all(type(count) is int and 0 <= count < 2**60 for count in counts):
        raise ExecutionError(f"the state of the stream is damaged: its counts are {counts!r:.60}")
    stream.number, stream.num_frames, stream.num_rows = counts
    _check_tensors(stream, tensors)
    own = {name: value.to(stream.frames) for name, value in tensors.items()}
    stream.frames, stream.last, stream.ivector = own["frames"], own.get("last"), own.get("ivector")
    stream.rows = [own["rows"].to(stream.device)] if "rows" in own else []
    state = {name.removeprefix(_STATE): v.to(stream.device) for name, v in own.items() if name.startswith(_STATE)}
    if state:
        stream.go_to(Batch(state, 1))


def _parts(data: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ExecutionError(f"the state of a stream is bytes, got {type(data).__name__}")
    data, safetensors = bytes(data), _safetensors()
    try:
        tensors = safetensors.torch.load(data)
        header = read_json(data[8 : 8 + int.from_bytes(data[:8], "little")])
        about = read_json(header.get("__metadata__", {}).get(_ABOUT, "{}"))
    except (safetensors.SafetensorError, ValueError, KeyError, AttributeError) as error:
        raise ExecutionError(f"the state of the stream is damaged: it is no safetensors file ({error})") from None
    return about if isinstance(about, dict) else {}, tensors


def _check_tensors(stream: StreamProgress, tensors: Mapping[str, Tensor]) -> None:
    """Raises ExecutionError unless the tensors have the names, shapes and finite values of the stream's state."""
    program, number = stream.program, stream.number
    done = number * program.frames_per_chunk + (program.right_context if number else 0)
    waiting = stream.num_frames + (program.left_context if stream.num_frames and not number else 0) - done
    dims, rows = program.nnet.node_dim, number * program.frames_per_chunk // program.frame_subsampling_factor
    shapes: dict[str, tuple[int, ...]] = {"frames": (waiting, dims("input"))}
    if stream.num_frames:
        shapes["last"] = (1, dims("input"))
    if "ivector" in tensors and "ivector" in program.nnet.input_names:
        shapes["ivector"] = (dims("ivector"),)
    if rows > stream.num_rows:
        shapes["rows"] = (rows - stream.num_rows, dims("output"))
    if number:
        before = program.chunks[stream.chunk_index].before
        shapes |= {f"{_STATE}{name}": (len(table), dims(name)) for name, table in before.items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != shapes:
        wrong = sorted(name for name in {*found, *shapes} if found.get(name) != shapes.get(name))
        raise ExecutionError(
            f"the state of the stream is damaged: '{wrong[0]}' should be {shapes.get(wrong[0], 'absent')}, "
            f"got {found.get(wrong[0], 'nothing')}"
        )
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            raise ExecutionError(f"the state of the stream is damaged: '{name}' has numbers that are not finite")


def _safetensors() -> Any:
    """Returns the package, imported at its first use: most streams never leave their process."""
    try:
        import safetensors.torch
    except ImportError as error:  # pragma: no cover
        raise Nnet3Error("states of streams need safetensors: pip install safetensors") from error
    return safetensors
