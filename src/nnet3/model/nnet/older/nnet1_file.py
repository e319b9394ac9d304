"""Reads networks of nnet1, as layers named and valued as those of nnet2."""

from __future__ import annotations

from typing import Any

from nnet3.base.kaldi_io.reader import Reader
from nnet3.model.nnet.older.layer import OlderLayer

#: The names of components that have no values but their dimensions.
_PLAIN = {
    "<Softmax>": "SoftmaxComponent",
    "<HiddenSoftmax>": "SoftmaxComponent",
    "<Sigmoid>": "SigmoidComponent",
    "<Tanh>": "TanhComponent",
    "<LengthNormComponent>": "LengthNorm",
}
_RATES = (
    *("<LearnRateCoef>", "<BiasLearnRateCoef>", "<MaxNorm>", "<AlphaLearnRateCoef>", "<BetaLearnRateCoef>"),
    *("<DropoutRate>", "<DropoutRetention>"),
)
_VALUES: dict[str, tuple[str, tuple[str, ...]]] = {
    "<AffineTransform>": ("AffineComponent", ("<LinearParams>", "<BiasParams>")),
    "<LinearTransform>": ("LinearTransform", ("<LinearParams>",)),
    "<AddShift>": ("FixedBiasComponent", ("<Bias>",)),
    "<Rescale>": ("FixedScaleComponent", ("<Scales>",)),
    "<Splice>": ("SpliceComponent", ("<Context>",)),
    "<Copy>": ("Copy", ("<Columns>",)),
    "<ParametricRelu>": ("ParametricRelu", ("<AlphaParams>", "<BetaParams>")),
    "<Dropout>": ("DropoutComponent", ()),
}
_END = "<!EndOfComponent>"


def read_layers(reader: Reader) -> list[OlderLayer]:
    """Reads `<Nnet> ... </Nnet>`, or components alone up to the end. Raises ModelFormatError."""
    is_wrapped = reader.accept("<Nnet>")
    layers = []
    while not (reader.accept("</Nnet>") if is_wrapped else reader.at_end()):
        layers.append(_read_layer(reader))
    if not layers:
        raise reader.error("a network of nnet1 without components")
    return layers


def _read_layer(reader: Reader) -> OlderLayer:
    token = reader.token()
    if token not in _PLAIN and token not in _VALUES:
        known = ", ".join(name[1:-1] for name in sorted([*_PLAIN, *_VALUES]))
        raise reader.error(f"'{token[:60]}' is no component of nnet1 that nnet3 has too: there are {known}")
    with reader.nested(token[1:-1]):
        output_dim, input_dim = reader.int32(), reader.int32()
        values: dict[str, Any] = {"<InputDim>": input_dim, "<OutputDim>": output_dim}
        name, tokens = (_PLAIN[token], ()) if token in _PLAIN else _VALUES[token]
        while reader.peek_token() in _RATES:
            rate = reader.token()
            values[rate] = reader.real()
        for each in tokens:
            read = {"<LinearParams>": Reader.matrix, "<Context>": Reader.int_vector, "<Columns>": Reader.int_vector}
            values[each] = read.get(each, Reader.vector)(reader)
        if name == "DropoutComponent":
            values["<DropoutProportion>"] = values.get("<DropoutRate>", 1.0 - values.get("<DropoutRetention>", 0.5))
        reader.accept(_END)
    return OlderLayer(name, values)
