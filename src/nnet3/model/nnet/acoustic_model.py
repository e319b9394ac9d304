"""AcousticModel: a transition model, a network and priors, as in Kaldi's `final.mdl`."""

from __future__ import annotations

import html
import os

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import NetworkError, check_kind
from nnet3.model.components.field_table import format_number
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.nnet.fingerprint import with_parts
from nnet3.model.nnet.model_file import read_nnet
from nnet3.model.nnet.network import Nnet
from nnet3.model.nnet.simple import what_is_simple
from nnet3.model.nnet.utterances import RunsUtterances


class AcousticModel(RunsUtterances):
    """A network whose output columns are the pdfs of a transition model, and priors of the pdfs.

    Scores for decoding are the network's output minus the logarithm of the priors. `priors` is (pdfs,) float32,
    or empty when the output needs no such correction (as in chain models). Raises NetworkError if the network is
    not simple or the priors do not fit it.
    """

    def __init__(self, transition_model: TransitionModel, nnet: Nnet, priors: Tensor | np.ndarray | None = None):
        if not nnet.is_simple:
            raise NetworkError(f"an acoustic model needs a simple network: {what_is_simple(nnet.parts)}")
        self.transition_model = transition_model
        self.nnet = nnet
        self.priors = torch.empty(0) if priors is None else priors

    @property
    def priors(self) -> Tensor:
        return self._priors

    @priors.setter
    def priors(self, values: Tensor | np.ndarray) -> None:
        priors = torch.as_tensor(values, dtype=torch.float32)
        self._check_size(priors)
        if not (torch.isfinite(priors) & (priors >= 0)).all():
            raise NetworkError("priors must be finite and not negative")
        self._priors = priors

    def _check_size(self, priors: Tensor) -> None:
        dim = self.nnet.node_dim("output")
        if priors.ndim != 1 or len(priors) not in (0, dim):
            shape = tuple(priors.shape)
            raise NetworkError(f"priors must be one number for each of {dim} outputs, or none: got {shape}")

    @property
    def warnings(self) -> list[str]:
        """One line if the numbers of output columns and pdfs differ."""
        dim, num_pdfs = self.nnet.node_dim("output"), self.transition_model.num_pdfs
        if dim == num_pdfs:
            return []
        return [f"the network's output has dimension {dim}, but the transition model has {num_pdfs} pdfs"]

    @property
    def left_context(self) -> int:
        """Frames of input needed to the left of an output frame, always by the present network."""
        return self.nnet.left_context

    @property
    def right_context(self) -> int:
        """Frames of input needed to the right of an output frame."""
        return self.nnet.right_context

    def copy(self) -> AcousticModel:
        """Returns a copy with independent network and priors."""
        return AcousticModel(self.transition_model, self.nnet.copy(), self.priors.clone())

    def quantize(self, dtype: torch.dtype | str = torch.int8) -> AcousticModel:
        """Returns a copy for inference with products of `dtype`, int8 or bfloat16; see `Nnet.quantize`."""
        return AcousticModel(self.transition_model, self.nnet.quantize(dtype), self.priors.clone())

    def pack(self, *, many_rows: bool = False) -> AcousticModel:
        """Returns a copy for inference; see `Nnet.pack`."""
        return AcousticModel(self.transition_model, self.nnet.pack(many_rows=many_rows), self.priors.clone())

    def info(self) -> str:
        """Kaldi's description: dimensions, priors, then the network."""
        inputs = self.nnet.input_names
        lines = [
            f"input-dim: {self.nnet.node_dim('input')}",
            f"ivector-dim: {self.nnet.node_dim('ivector') if 'ivector' in inputs else -1}",
            f"num-pdfs: {self.nnet.node_dim('output')}",
            f"prior-dimension: {len(self.priors)}",
        ]
        if len(self.priors):
            values = {"sum": self.priors.sum(), "min": self.priors.min(), "max": self.priors.max()}
            lines += [f"prior-{name}: {format_number(float(value))}" for name, value in values.items()]
        return "\n".join([*lines, "# Nnet info follows.", self.nnet.info()])

    def __str__(self) -> str:
        return self.info()

    def __repr__(self) -> str:
        return f"<AcousticModel {self.transition_model!r}, {self.nnet!r}, {len(self.priors)} priors>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>{self.nnet._repr_html_()}"

    @classmethod
    def read(cls, reader: Reader) -> AcousticModel:
        """Reads the parts of a `.mdl` file, from `<TransitionModel>` on. The contexts stored there are ignored."""
        start = reader.position
        transition_model = TransitionModel.read(reader)
        nnet = read_nnet(reader)
        for token in ("<LeftContext>", "<RightContext>"):
            reader.after(token).int32()
        reader.expect("<Priors>")
        priors_start = reader.position
        priors = reader.vector()
        try:
            model = cls(transition_model, nnet)
        except NetworkError as error:
            raise reader.error_at(start, str(error)) from None
        try:
            model.priors = torch.from_numpy(priors)
        except NetworkError as error:
            raise reader.error_at(priors_start, str(error)) from None
        return model

    def write_to(self, writer: Writer) -> None:
        """Writes transition model, network, contexts and priors. Raises NetworkError unless priors fit the network."""
        self._check_size(self.priors)
        self.transition_model.write_to(writer)
        self.nnet.write_to(writer)
        writer.token("<LeftContext>").int32(self.left_context)
        writer.token("<RightContext>").int32(self.right_context)
        writer.token("<Priors>").vector(self.priors.cpu().numpy())

    def save(self, path: str | os.PathLike[str], binary: bool = True) -> None:
        """Writes a `.mdl` file for Kaldi, atomically; `binary` false: as text."""
        writer = Writer.of_file(binary)
        self.write_to(writer)
        writer.write_to(path)


def network_of(model: Nnet | AcousticModel) -> Nnet:
    """Returns the network of a model, which may be a network itself. Raises ArgumentError for anything else."""
    check_kind(model, (Nnet, AcousticModel), "the model", "a network or an acoustic model (nnet3.load gives one)")
    return model.nnet if isinstance(model, AcousticModel) else model


def device_of(nnet: Nnet) -> torch.device:
    """Returns the device of a network's parameters and constants; the CPU without any."""
    leaves = with_parts(nnet.components.values())
    held = (getattr(leaf, name) for leaf in leaves for name in (*leaf.parameter_names, *leaf.constant_names))
    return next((tensor.device for tensor in held), torch.device("cpu"))
