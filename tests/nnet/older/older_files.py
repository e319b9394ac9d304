"""Files of nnet1 and nnet2, written token by token as their programs write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer

Part = tuple[str, Any]  # a token and its value; "" for a value alone


def written(parts: Sequence[Part], binary: bool = True) -> bytes:
    writer = Writer.of_file(binary)
    _write(writer, parts)
    return writer.getvalue()


def _write(writer: Writer, parts: Sequence[Part]) -> None:
    for token, value in parts:
        if token:
            writer.token(token)
        if isinstance(value, bool):
            writer.boolean(value)
        elif isinstance(value, int):
            writer.int32(value)
        elif isinstance(value, float):
            writer.real(value)
        elif isinstance(value, np.ndarray) and value.dtype.kind == "i":
            writer.int_vector(value)
        elif isinstance(value, np.ndarray):
            (writer.matrix if value.ndim == 2 else writer.vector)(value)


def layer(name: str, *parts: Part) -> list[Part]:
    return [(f"<{name}>", None), *parts, (f"</{name}>", None)]


def of_nnet2(*layers: list[Part]) -> list[Part]:
    header: list[Part] = [("<Nnet>", None), ("<NumComponents>", len(layers)), ("<Components>", None)]
    return [*header, *(part for each in layers for part in each), ("</Components>", None), ("</Nnet>", None)]


def reader(data: bytes) -> Reader:
    return Reader(data, "older")


def affine(weight: np.ndarray, bias: np.ndarray, name: str = "AffineComponent", *more: Part) -> list[Part]:
    return layer(
        name,
        ("<LearningRate>", 0.02),
        ("<LinearParams>", weight),
        ("<BiasParams>", bias),
        *(more or [("<IsGradient>", False)]),
    )


def nonlinear(name: str, dim: int) -> list[Part]:
    sums = np.zeros(0, np.float32)
    return layer(name, ("<Dim>", dim), ("<ValueSum>", sums), ("<DerivSum>", sums), ("<Count>", 0.0))


def splice(dim: int, offsets: Sequence[int], constant: int = 0) -> list[Part]:
    context = np.array(offsets, np.int32)
    return layer("SpliceComponent", ("<InputDim>", dim), ("<Context>", context), ("<ConstComponentDim>", constant))
