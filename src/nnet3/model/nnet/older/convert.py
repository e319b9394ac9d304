"""Models of nnet1 and nnet2 as networks and acoustic models of nnet3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

from nnet3.base.kaldi_io.reader import Reader
from nnet3.errors import ConfigError, NetworkError
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.nnet.acoustic_model import AcousticModel
from nnet3.model.nnet.network import Nnet
from nnet3.model.nnet.older import nnet1_file, nnet2_file
from nnet3.model.nnet.older.layer import OlderLayer
from nnet3.model.nnet.older.layers import LAYERS, LAYERS_OF_NNET1
from nnet3.model.nnet.other_models import other_model
from nnet3.model.nnet.stack import Stack

_MOST_COLUMNS = 1_000_000


def convert(reader: Reader, transform: Reader | None = None, *, log_softmax: bool = True) -> Nnet | AcousticModel:
    """Returns the model of nnet2, raw or with a transition model, or the network of nnet1, that all of a file is.

    `transform`: a network of nnet1 that comes before, as `final.feature_transform` does. With `log_softmax` a last
    Softmax becomes LogSoftmax: decoders of nnet1 and nnet2 took the logarithm, those of nnet3 do not. An ivector behind
    the features, which the first Splice takes once, becomes an input `ivector`.

    Raises ModelFormatError for a damaged file, and for a component that nnet3 has nothing for.
    """
    start = reader.position
    transitions = TransitionModel.read(reader) if reader.peek_token() == "<TransitionModel>" else None
    if _begins(reader, "<Nnet3>"):
        raise reader.error_at(
            start,
            "a model of nnet3 already; `nnet3 copy` or `nnet3 am-copy` changes its form, `nnet3 export-onnx` makes an "
            "ONNX file of it",
        )
    if transitions is None and not reader.peek_token().startswith("<"):
        token = reader.peek_token()[:60]
        raise reader.error(f"expected a model of nnet2 or a network of nnet1, got '{token}'{other_model(reader)}")
    before = [] if transform is None else transform.whole(nnet1_file.read_layers)
    if transitions is not None or _begins(reader, "<Nnet>", "<NumComponents>"):
        layers = nnet2_file.read_layers(reader, LAYERS)
    else:
        layers = nnet1_file.read_layers(reader)
    priors = reader.vector() if transitions is not None else None
    reader.finish()
    try:
        nnet = network_of_layers([*before, *layers], log_softmax=log_softmax)
        return nnet if transitions is None else AcousticModel(transitions, nnet, priors)
    except (NetworkError, ConfigError) as error:
        raise reader.error_at(start, str(error)) from None


def _begins(reader: Reader, *tokens: str) -> bool:
    """Returns whether the next tokens are these, without reading on."""
    start = reader.position
    found = all(reader.accept(token) for token in tokens)
    reader.position = start
    return found


def network_of_layers(layers: Sequence[OlderLayer], *, log_softmax: bool) -> Nnet:
    """Returns the network of layers, one after the other. Raises NetworkError for layers that do not fit."""
    for number, layer in enumerate(layers, 1):
        if not 0 < layer.input_dim <= _MOST_COLUMNS:
            raise NetworkError(f"component {number}, {layer.type}, takes {layer.input_dim} columns")
    first = layers[0]
    ivector_dim = first.values.get("<ConstComponentDim>", 0) if first.type == "SpliceComponent" else 0
    if not 0 <= ivector_dim < first.input_dim:
        raise NetworkError(f"a {first.type} of {first.input_dim} columns, {ivector_dim} of them constant")
    stack = Stack(first.input_dim - ivector_dim, torch.float32, ivector_dim=ivector_dim)
    known, counts = {**LAYERS, **LAYERS_OF_NNET1}, Counter[str]()
    for number, layer in enumerate(layers, 1):
        taken = layer.input_dim - (ivector_dim if number == 1 else 0)
        if taken != stack.dim:
            raise NetworkError(f"component {number}, {layer.type}, takes {taken} columns, but gets {stack.dim}")
        is_last = number == len(layers)
        name = "LogSoftmaxComponent" if log_softmax and is_last and layer.type == "SoftmaxComponent" else layer.type
        prefix, add = known[name]
        counts[prefix] += 1
        try:
            add(stack, f"{prefix}{counts[prefix]}", layer)
        except NetworkError as error:
            raise NetworkError(f"component {number}: {error}") from None
        output_dim = layer.values.get("<OutputDim>", stack.dim)
        if output_dim != stack.dim:
            raise NetworkError(f"component {number}, {layer.type}, gives {stack.dim} columns, not {output_dim}")
    parts = stack.parts()
    return Nnet(parts.nodes, parts.components)
