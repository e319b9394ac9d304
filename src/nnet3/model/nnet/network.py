"""Nnet: named components glued together by nodes."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from typing_extensions import Self

from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.text import did_you_mean
from nnet3.base.text.html import folded, table
from nnet3.errors import ArgumentError, NetworkError
from nnet3.model.components.base import Component
from nnet3.model.components.random_source import RandomSource
from nnet3.model.nnet import at_first_use
from nnet3.model.nnet.component_operations import ComponentOperations
from nnet3.model.nnet.conversion import (
    convert,
    for_inference,
    packed,
    parse_target,
    quantized,
    widest_type,
)
from nnet3.model.nnet.fingerprint import ComponentDigests, nodes_digest
from nnet3.model.nnet.flat_parameters import FlatParameters, sent_by_value
from nnet3.model.nnet.simple import what_is_simple
from nnet3.model.nnet.utterances import RunsUtterances
from nnet3.model.structure.config_reader import apply_config, read_config_file
from nnet3.model.structure.context import compute_context
from nnet3.model.structure.nodes import ComponentNode, InputNode, NnetNode
from nnet3.model.structure.parts import NetworkParts

if TYPE_CHECKING:
    from nnet3.base.drawing import Picture
    from nnet3.model.xconfig.matrices import MatrixLike


@sent_by_value
class Nnet(RunsUtterances, ComponentOperations):
    """A neural network: `nodes` in order, a component node right after its hidden input, and `components` by name.

    Make one with `Nnet.from_config(text)` or `nnet3.load(path)`. `warnings` lists nodes and components needed by no
    output.
    """

    def __init__(self, nodes: Sequence[NnetNode], components: dict[str, Component], warnings: Sequence[str] = ()):
        self._parts = NetworkParts(tuple(nodes), dict(components))
        self.given_dtype: torch.dtype | None = None  # by the last `to`
        self.warnings = list(warnings)
        self._flat_parameters, self._digests = FlatParameters(), ComponentDigests()

    # ---- making and changing ----

    @classmethod
    def from_config(cls, text: str, *, source: str = "<config>", seed: int = 0) -> Self:
        """Returns a network of the text of a config. `source`: its name in messages; `seed`: of initial parameters.

        Raises ConfigError with a caret, ArgumentError for a path instead of a text.
        """
        if isinstance(text, str) and "=" not in text and os.path.isfile(text):
            raise ArgumentError(f"'{text}' is a path, not the text of a config: use from_config_file")
        nnet = cls((), {})
        nnet.apply_config(text, source=source, seed=seed)
        return nnet

    @classmethod
    def from_xconfig(cls, text: str, *, source: str = "<xconfig>", seed: int = 0, **files: MatrixLike) -> Self:
        """Returns a network of the text of an xconfig, lines of layers. Raises ConfigError with a caret.

        `source`: the name of the text in messages; `seed`: of initial parameters. `files`: matrices of transforms, LDA
        for instance, by file name, `lda=matrix` for `lda.mat`: (outputs, inputs), with a bias (outputs, inputs + 1).
        Matrices not given are read from the files, or are the identity, with a warning, if the file is missing.
        """
        nnet = cls((), {})
        nnet.apply_xconfig(text, source=source, seed=seed, **files)
        return nnet

    @classmethod
    def from_config_file(cls, path: str | os.PathLike[str], *, seed: int = 0) -> Self:
        """Returns a network of the config or xconfig in a file; `seed`: of initial parameters.

        Raises ConfigError, also for a file unreadable or without a config.
        """
        return cls.from_config(read_config_file(path), source=os.fspath(path), seed=seed)

    @classmethod
    def from_torch(cls, modules: nn.Module | Sequence[nn.Module], *, input_dim: int | None = None) -> Self:
        """Returns a network that computes what PyTorch modules, given in the order of the data, do in test mode.

        `modules`: a module, an nn.Sequential or nn.ModuleList, or a list. Known are Linear, Conv1d (dilation, stride,
        groups), BatchNorm1d, LayerNorm, RMSNorm, LSTM, GRU, RNN (layers, both directions, projections), ReLU, Sigmoid,
        Tanh, SiLU, LeakyReLU, Softmax, LogSoftmax, Dropout, Dropout1d and Identity. Parameters are copied. A row of the
        network is a frame, whatever the modules' order of dimensions; softmaxes and norms are over the columns.

        A Conv1d without padding gives the network context: the output at t looks at both sides of t. Zeros that keep
        the number of frames are zeros outside of the frames given. After a stride of k, every k-th frame has an output.
        `input_dim` is needed if no module says how many columns it takes.

        Raises ArgumentError for a module of another type, or with other settings, by its path.
        """
        parts = at_first_use.parts_of(modules, input_dim)
        return cls(parts.nodes, parts.components)

    def apply_config(self, text: str, *, source: str = "<config>", seed: int = 0) -> None:
        """Adds the nodes and components of a config, replacing parts of equal name. On an error nothing changes.

        The text may also be an xconfig, known by its layers.
        """
        if not isinstance(text, str):
            raise ArgumentError(f"a config is a str, got {text!r}; from_config_file reads one from a path")
        if at_first_use.is_xconfig(text):
            self.apply_xconfig(text, source=source, seed=seed)
            return
        parts, warnings = apply_config(self._parts, text, source, RandomSource(seed))
        self.replace_parts(parts)
        self.warnings = warnings

    def apply_xconfig(self, text: str, *, source: str = "<xconfig>", seed: int = 0, **files: MatrixLike) -> None:
        """Adds the layers of an xconfig `text`, whose inputs may name nodes of this network; see `from_xconfig`."""
        if not isinstance(text, str):
            raise ArgumentError(f"an xconfig is a str, got {text!r}; from_config_file reads one from a path")
        parts, warnings = at_first_use.apply_xconfig(self._parts, text, source, RandomSource(seed), files)
        self.replace_parts(parts)
        self.warnings = warnings

    def replace_parts(self, parts: NetworkParts) -> None:
        """Replaces nodes and components by parts that the caller has checked."""
        self._parts = parts
        for name in ("_context", "_nodes_digest"):
            self.__dict__.pop(name, None)

    @property
    def parts(self) -> NetworkParts:
        """Nodes and components as one value, for readers and edits."""
        return self._parts

    @property
    def nodes(self) -> tuple[NnetNode, ...]:
        return self._parts.nodes

    @property
    def components(self) -> dict[str, Component]:
        """The components by name, in order of definition (the dictionary itself)."""
        return self._parts.components

    # ---- asking ----

    @property
    def node_number(self) -> dict[str, int]:
        """Positions of nodes by name."""
        return self._parts.node_number

    def node(self, name: str) -> NnetNode:
        """Returns the node of a name. Raises NetworkError without such a node."""
        if not isinstance(name, str):
            raise ArgumentError(f"a node is asked for by its name, a str, got {name!r}")
        if name not in self.node_number:
            hint = did_you_mean(name, self.node_number)
            raise NetworkError(f"the network has no node '{name}'{'; ' + hint if hint else ''}")
        return self.nodes[self.node_number[name]]

    def component_of(self, node: ComponentNode) -> Component:
        return self.components[node.component]

    def node_dim(self, name: str) -> int:
        """Returns the number of columns of node `name`'s value. Raises NetworkError for an unknown node."""
        return self._parts.dim(self.node(name).name)

    @property
    def input_names(self) -> list[str]:
        return [node.name for node in self.nodes if isinstance(node, InputNode)]

    @property
    def output_names(self) -> list[str]:
        return [node.name for node in self.nodes if node.is_output]

    @property
    def input_dims(self) -> dict[str, int]:
        """Columns of every input node."""
        return {name: self.node_dim(name) for name in self.input_names}

    @property
    def output_dims(self) -> dict[str, int]:
        """Columns of every output node."""
        return {name: self.node_dim(name) for name in self.output_names}

    @property
    def modulus(self) -> int:
        """The period in t under which the network's structure repeats."""
        return self._parts.modulus

    @property
    def is_simple(self) -> bool:
        """True for a network with nodes `output` and `input` and no other input but `ivector`."""
        inputs = self.input_names
        return "output" in self.output_names and "input" in inputs and (len(inputs) == 1 or "ivector" in inputs)

    @cached_property
    def _context(self) -> tuple[int, int]:
        if not self.is_simple:
            raise NetworkError(f"left and right context are those of simple networks: {what_is_simple(self.parts)}")
        return compute_context(self._parts)

    @property
    def left_context(self) -> int:
        """Frames of input needed to the left of an output frame, in the worst case over t modulo the modulus."""
        return self._context[0]

    @property
    def right_context(self) -> int:
        """Frames of input needed to the right of an output frame."""
        return self._context[1]

    @cached_property
    def _nodes_digest(self) -> str:
        return nodes_digest(self.nodes)

    def fingerprint(self) -> dict[str, str]:
        """Returns a digest for each aspect on which compiled programs depend: the nodes, every component's settings.

        Two networks with equal fingerprints can run each other's computations: all requests compile to equal
        programs.
        """
        return {"nodes": self._nodes_digest, **self._digests.of(self.components)}

    @property
    def num_parameters(self) -> int:
        return sum(component.num_parameters for component in self.components.values())

    def config_lines(self, *, dims: bool = False) -> list[str]:
        """Returns a line for each node but hidden inputs, as in a model file; `dims`: with dimensions, as in `info`."""
        lines = []
        for number, node in enumerate(self.nodes):
            if node.is_hidden:
                continue
            shown = ""
            if dims and isinstance(node, ComponentNode):
                shown = f" input-dim={self.node_dim(node.input_name)} output-dim={self.node_dim(node.name)}"
            elif dims and node.is_output:
                shown = f" dim={self.node_dim(node.name)}"
            lines.append(node.config_line(self._parts.descriptor(number), shown))
        return lines

    def to_xconfig(self) -> str:
        """Returns an xconfig that expands to the network, with comments on nodes outside layers."""
        return at_first_use.describe(self.parts).xconfig

    def info(self) -> str:
        """Kaldi's description of the network, one line per node and component."""
        lines = []
        if self.is_simple:
            lines += [f"left-context: {self.left_context}", f"right-context: {self.right_context}"]
        lines += [f"num-parameters: {self.num_parameters}", f"modulus: {self.modulus}"]
        lines += self.config_lines(dims=True)
        lines += [f"component name={name} type={component.info()}" for name, component in self.components.items()]
        return "\n".join(lines) + "\n"

    def save(self, path: str | os.PathLike[str], binary: bool = True) -> None:
        """Writes a raw network file for Kaldi, atomically; `binary` false: as text."""
        writer = Writer.of_file(binary)
        self.write_to(writer)
        writer.write_to(path)

    def write_to(self, writer: Writer) -> None:
        """Writes `<Nnet3> ... </Nnet3>`: the nodes as config lines, text in binary files too, then the components."""
        writer.token("<Nnet3>")
        writer.text_line("")
        for line in self.config_lines():
            writer.text_line(line)
        writer.text_line("")
        writer.token("<NumComponents>").int32(len(self.components))
        writer.newline()
        for name, component in self.components.items():
            writer.token("<ComponentName>")
            writer.token(name)
            component.write_to(writer)
            writer.newline()
        writer.token("</Nnet3>")

    def __str__(self) -> str:
        return self.info()

    def __repr__(self) -> str:
        return f"<Nnet {len(self.nodes)} nodes, {len(self.components)} components, {self.num_parameters} parameters>"

    def draw(self, path: str | os.PathLike[str] | None = None, *, every_node: bool = False, title: str = "") -> Picture:
        """Draws the layers as boxes, or with `every_node` the nodes, under a title; returns a picture.

        The picture has `.svg` and `.dot`. `path`: a .svg, .png or .dot file to write. Raises DrawingError for networks
        of too many layers, and for SVG and PNG without Graphviz.
        """
        drawn = at_first_use.Picture(at_first_use.network_graph(self.parts, title, every_node=every_node))
        if path is not None:
            drawn.save(path)
        return drawn

    def _repr_html_(self) -> str:
        num_boxes = len(at_first_use.group_nodes(self.parts))
        is_drawn = num_boxes <= at_first_use.MOST_SHOWN_BOXES and at_first_use.can_paint()
        shown = self.draw().svg if is_drawn else ""
        facts = {"nodes": len(self.nodes), "components": len(self.components), "parameters": self.num_parameters}
        if self.is_simple:
            facts |= {"left context": self.left_context, "right context": self.right_context}
        counted = table([*facts], [[f"{number:,}" for number in facts.values()]], 0)
        return f"<p>{escape(repr(self))}</p>{counted}{shown}{folded('nodes and components', self.info())}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    # ---- copies and conversions ----

    def to(
        self,
        *target: object,
        dtype: torch.dtype | None = None,
        device: str | int | torch.device | None = None,
    ) -> Self:
        """Converts all components in place; returns the network. As in PyTorch: `to("cuda")`, `to(torch.float64)`.

        Raises ArgumentError for anything but an available device or a dtype of floats, ComponentError
        for a conversion impossible for a quantized component; then nothing is converted.
        """
        dtype, device = parse_target(target, dtype, device)
        convert(self.components.values(), dtype, device)
        self.given_dtype = dtype or self.given_dtype
        return self

    @property
    def dtype(self) -> torch.dtype:
        """The widest type of parameters and constants; without any, the type of the last `to`, or float32."""
        return widest_type(self.components.values()) or self.given_dtype or torch.float32

    def copy(self) -> Self:
        """Returns an independent copy, natural-gradient and random state included."""
        twin = copy.copy(self)
        twin.replace_parts(replace(self._parts, components={n: c.copy() for n, c in self.components.items()}))
        twin.warnings = list(self.warnings)
        return twin

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self.copy()

    def __getstate__(self) -> dict[str, object]:
        # The components have the values.
        return {**self.__dict__, "_flat_parameters": FlatParameters(), "_digests": ComponentDigests()}

    def gradient_copy(self) -> Self:
        """Returns a copy with parameters and statistics zero, which collects plain gradients."""
        twin = self.copy()
        twin.scale_(0.0)
        for component in twin.components.values():
            component.set_as_gradient()
        return twin

    def in_test_mode(self) -> Self:
        """Returns a network to read: the same parameter tensors, in test mode, with native code in recurrences.

        The original stays as it is. The new network has the original's present structure and statistics.
        """
        twin = copy.copy(self)
        twin.warnings = list(self.warnings)
        twin.replace_parts(replace(self._parts, components=for_inference(self._parts)))
        return twin

    def quantize(self, dtype: torch.dtype | str = torch.int8) -> Self:
        """Returns a copy for inference whose affine components have products of int8, or weights of bfloat16.

        Affine, linear and TDNN components are quantized; all else stays float32, inputs and outputs too. Of int8, every
        row of weights and every row of input has a scale of its own. The copy is run, copied and pickled like any
        network; it is neither trained nor saved in Kaldi's format.

        Raises ArgumentError for another dtype; NetworkError for weights that are not finite, for int8 on a GPU and for
        a network that is quantized already.
        """
        twin = type(self)(self.nodes, quantized(self.parts, dtype), self.warnings)
        twin.given_dtype = torch.float32
        return twin

    def pack(self, *, many_rows: bool = False) -> Self:
        """Returns a copy for inference, as by `quantize`, in faster forms:

        where products with packed weights are faster than PyTorch's, which is measured at the first call, the weights
        of large affine, linear and TDNN components are packed. With a C compiler, native code runs the steps of
        recurrences on the CPU in float32; the code is built at the first call. NNET3_NATIVE=0 in the environment
        forbids it.

        `many_rows`: the network runs on some 100 output frames or more at a time, of one sequence or of many. AMX then
        multiplies weights outside recurrences, on processors where AMX is fastest. Either way a row's result depends on
        no other rows.
        """
        return type(self)(self.nodes, packed(self.parts, many_rows=many_rows), self.warnings)
