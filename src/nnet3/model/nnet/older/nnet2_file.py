"""Reads networks of nnet2: components as values by token; which of them there are follows from `LAYERS`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from nnet3.base.kaldi_io.reader import Reader
from nnet3.model.nnet.older.layer import OlderLayer

_READERS: dict[str, Callable[[Reader], Any]] = {
    **dict.fromkeys(
        (
            *("<LearningRate>", "<Alpha>", "<MaxChange>", "<MaxChangePerSample>", "<NumSamplesHistory>", "<P>"),
            *("<AvgInputCount>", "<Count>", "<Power>", "<Scale>", "<DropoutScale>", "<DropoutProportion>", "<Stddev>"),
        ),
        Reader.real,
    ),
    **dict.fromkeys(
        (
            *("<Dim>", "<InputDim>", "<OutputDim>", "<NumBlocks>", "<Rank>", "<RankIn>", "<RankOut>", "<UpdatePeriod>"),
            *("<LeftContext>", "<RightContext>", "<ConstComponentDim>", "<DctDim>", "<DctKeepDim>", "<PatchDim>"),
            *("<PatchStep>", "<PatchStride>", "<PoolSize>", "<PoolStride>"),
        ),
        Reader.int32,
    ),
    **dict.fromkeys(("<LinearParams>", "<CuMatrix>", "<FilterParams>"), Reader.matrix),
    **dict.fromkeys(("<BiasParams>", "<AvgInput>", "<ValueSum>", "<DerivSum>", "<Scales>", "<Bias>"), Reader.vector),
    **dict.fromkeys(("<Reorder>", "<Sizes>", "<Context>"), Reader.int_vector),
    **dict.fromkeys(("<IsGradient>", "<AppendedConv>"), Reader.boolean),
}
_MOST_LAYERS = 10_000


def read_layers(reader: Reader, known: Collection[str]) -> list[OlderLayer]:
    """Reads `<Nnet> <NumComponents> ... </Nnet>`. Raises ModelFormatError, also for a type that is not known."""
    reader.expect("<Nnet>")
    count = reader.after("<NumComponents>").int32()
    if not 0 < count <= _MOST_LAYERS:
        raise reader.error(f"expected from 1 to {_MOST_LAYERS} components, got {count}")
    reader.expect("<Components>")
    layers = [_read_layer(reader, known) for _ in range(count)]
    reader.expect("</Components>")
    reader.expect("</Nnet>")
    return layers


def _read_layer(reader: Reader, known: Collection[str]) -> OlderLayer:
    opening = reader.token()
    name = opening[1:-1]
    if opening != f"<{name}>" or name not in known:
        raise reader.error(
            f"'{opening[:60]}' is no component of nnet2 that nnet3 has too: there are {', '.join(known)}"
        )
    values: dict[str, Any] = {}
    with reader.nested(name):
        while True:
            token = reader.token()
            if token in (f"</{name}>", opening):  # SumGroupComponent was once closed by its opening token
                return OlderLayer(name, values)
            read = Reader.boolean if (name, token) == ("DctComponent", "<Reorder>") else _READERS.get(token)
            if read is None or token in values:
                raise reader.error(f"expected a field of {name} or </{name}>, got '{token[:60]}'")
            values[token] = read(reader)
