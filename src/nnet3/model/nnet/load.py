"""Loads model files by path, in text or binary, and finds out the kind of model."""

from __future__ import annotations

import os

from nnet3.base.kaldi_io.files import check_is_path
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.text import other_format
from nnet3.errors import ModelFormatError
from nnet3.model.components.component_types import COMPONENT_TYPES
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.nnet import at_first_use
from nnet3.model.nnet.acoustic_model import AcousticModel, network_of
from nnet3.model.nnet.model_file import read_nnet
from nnet3.model.nnet.network import Nnet
from nnet3.model.nnet.other_models import other_model
from nnet3.model.structure.config_reader import LINE_TYPES

_RAW, _ACOUSTIC = "<Nnet3>", "<TransitionModel>"


def load(path: str | os.PathLike[str]) -> Nnet | AcousticModel:
    """Loads an Nnet from a raw network, an AcousticModel from a `.mdl` file. Raises ModelFormatError.

    An xconfig, known by its layers, gives a new network as `Nnet.from_config_file` does, or a ConfigError. A config is
    refused, and so is a component alone, which `components.read` reads.
    """
    reader = _open(path)
    first = reader.peek_token()
    if first in LINE_TYPES:
        raise reader.error("this is a config, not a model file: nnet3.Nnet.from_config_file makes a network of it")
    if first not in (_RAW, _ACOUSTIC) and first in at_first_use.LAYER_TYPES:
        return Nnet.from_config_file(path)
    if _is_component(first):
        raise reader.error("this is a component, not a model file: nnet3.components.read reads it")
    return read_model(reader)


def load_nnet(path: str | os.PathLike[str]) -> Nnet:
    """Loads the network in a file, possibly a `.mdl` file. Raises ModelFormatError."""
    return network_of(load(path))


def load_transition_model(path: str | os.PathLike[str]) -> TransitionModel:
    """Loads the transition model at the beginning of a file, such as a `.mdl` file; the rest is not read."""
    return read_transition_model(_open(path))


def read_transition_model(reader: Reader) -> TransitionModel:
    """Reads the transition model at the reader's position; see `load_transition_model`."""
    if reader.peek_token() == _RAW:
        raise reader.error("this is a raw network, which has no transition model: give a .mdl file")
    return TransitionModel.read(reader)


def read_model(reader: Reader) -> Nnet | AcousticModel:
    """Reads the model that all of the rest is; see `load`."""
    first = reader.peek_token()
    model: Nnet | AcousticModel
    if first == _RAW:
        model = read_nnet(reader)
    elif first == _ACOUSTIC:
        model = AcousticModel.read(reader)
    else:
        if other := other_format(reader.data):
            raise ModelFormatError(f"{other}, not a model file", reader.source)
        got = f"got '{first[:60]}'" if first else "the file ends here"
        hint = other_model(reader)
        if first in LINE_TYPES:
            hint = ": this is a config, of which `nnet3 init` makes a network"
        elif first in at_first_use.LAYER_TYPES:
            hint = ": this is an xconfig, of which `nnet3 init` makes a network"
        elif _is_component(first):
            hint = ": this is a component alone, not a network"
        raise reader.error(f"expected {_RAW} (a raw network) or {_ACOUSTIC} (an acoustic model), {got}{hint}")
    reader.finish()
    return model


def _open(path: str | os.PathLike[str]) -> Reader:
    check_is_path(path, "a model file")
    return Reader.open(path)


def _is_component(token: str) -> bool:
    return token[1:-1] in COMPONENT_TYPES and token == f"<{token[1:-1]}>"
