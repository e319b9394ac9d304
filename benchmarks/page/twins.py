"""The networks of golden/bench as one would write them in PyTorch, with the same weights.

Values are (frames, sequences, dim), so that a frame's rows lie together and every layer is a product of one large
matrix. Layers that only every third frame needs are computed at these alone. What a recurrence knows beforehand is
multiplied before its loop. Each twin takes the input frames that its outputs need, and an ivector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from nnet3 import Nnet

FACTOR = 3  # an output for every third frame


class Timed(NamedTuple):
    """Values from time `first` on, one every `step` frames: (frames, sequences, dim)."""

    first: int
    step: int
    rows: Tensor

    @property
    def last(self) -> int:
        return self.first + self.step * (len(self.rows) - 1)

    def between(self, first: int, last: int, step: int) -> Tensor:
        """The rows of these times."""
        rows = self.rows[(first - self.first) // self.step : (last - self.first) // self.step + 1]
        return rows[:: step // self.step] if step != self.step else rows

    def map(self, function: Callable[[Tensor], Tensor]) -> Timed:
        return self._replace(rows=function(self.rows))


def parts(*terms: tuple[Timed, int], residue: int | None = None) -> tuple[int, int, list[Tensor]]:
    """What values at these offsets are at all times that all have: the first time, the step, the rows of each.

    With a residue only at every third time.
    """
    first = max(value.first - offset for value, offset in terms)
    last = min(value.last - offset for value, offset in terms)
    step = max(value.step for value, _ in terms)
    if residue is not None:
        step, first, last = FACTOR, first + (residue - first) % FACTOR, last - (last - residue) % FACTOR
    return first, step, [value.between(first + offset, last + offset, step) for value, offset in terms]


def append(*terms: tuple[Timed, int], residue: int | None = None) -> Timed:
    first, step, rows = parts(*terms, residue=residue)
    return Timed(first, step, rows[0] if len(rows) == 1 else torch.cat(rows, dim=2))


class Twin(nn.Module):
    """Parameters by the names of the components; `run` makes the outputs at every third time."""

    def __init__(self, nnet: Nnet) -> None:
        super().__init__()
        self.weights, self.biases = nn.ParameterDict(), nn.ParameterDict()
        self.norms = nn.ModuleDict()
        for name, component in nnet.components.items():
            key, found = name.replace(".", "_"), component.parameters()
            if component.type_name == "BatchNormComponent":
                self.norms[key] = norm = nn.BatchNorm1d(component.output_dim, eps=1e-3, affine=False)
                if component.test_mode:
                    norm.running_mean.copy_(component.stats_mean)
                    norm.running_var.copy_(component.stats_var)
            for parameter, value in found.items():
                held = self.biases if parameter == "bias_params" else self.weights
                if value.numel():
                    held[key] = nn.Parameter(value.clone())
        lda = nnet.components["lda"]
        self.register_buffer("lda_weight", lda.linear_params.clone())
        self.register_buffer("lda_bias", lda.bias_params.clone())
        self.left, self.context = nnet.left_context, nnet.left_context + nnet.right_context

    def forward(self, x: Tensor, ivector: Tensor) -> Tensor:
        """Outputs (frames, sequences, dim) of input frames (frames, sequences, dim) and ivectors (sequences, dim)."""
        return self.run(Timed(-self.left, 1, x), ivector)

    def run(self, x: Timed, ivector: Tensor) -> Tensor:
        raise NotImplementedError

    def spliced_input(self, x: Timed, ivector: Tensor, width: int, residue: int | None = None) -> Timed:
        """The linear discriminant of neighbouring frames and the ivector."""
        found = append(*((x, offset) for offset in range(-width, width + 1)), residue=residue)
        split = found.rows.shape[2]
        constant = linear(ivector, self.lda_weight[:, split:], self.lda_bias)
        return found.map(lambda rows: linear(rows, self.lda_weight[:, :split]) + constant)

    def affine(self, name: str, x: Timed) -> Timed:
        key = name.replace(".", "_")
        return x.map(lambda rows: linear(rows, self.weights[key], self.biases.get(key)))

    def product(self, name: str, *terms: tuple[Timed, int], residue: int | None = None) -> Timed:
        """A product of an Append: of wide values one product for each part, instead of a copy."""
        first, step, rows = parts(*terms, residue=residue)
        key, width = name.replace(".", "_"), rows[0].shape[2]
        if len(rows) == 1 or width < 512:
            x = rows[0] if len(rows) == 1 else torch.cat(rows, dim=2)
            return self.affine(name, Timed(first, step, x))
        bias = self.biases.get(key)
        pieces = self.weights[key].split(width, dim=1)
        total = linear(rows[0], pieces[0], bias).flatten(0, 1)
        for each, piece in zip(rows[1:], pieces[1:], strict=True):
            total = torch.addmm(total, each.flatten(0, 1), piece.t())
        return Timed(first, step, total.view(*rows[0].shape[:2], -1))

    def norm(self, name: str, x: Timed) -> Timed:
        normalize = self.norms[name.replace(".", "_")]
        return x.map(lambda rows: normalize(rows.flatten(0, 1)).view_as(rows))

    def rectified(self, name: str, x: Timed) -> Timed:
        return self.norm(f"{name}.batchnorm", x.map(torch.relu))

    def relu_layer(self, name: str, *terms: tuple[Timed, int], residue: int | None = None) -> Timed:
        return self.rectified(name, self.product(f"{name}.affine", *terms, residue=residue))


class Tdnnf(Twin):
    """Layers 2 to 4 at all frames, those above at every third one."""

    def run(self, x: Timed, ivector: Tensor) -> Tensor:
        x = self.relu_layer("tdnn1", (self.spliced_input(x, ivector, 1), 0))
        for number, stride in enumerate((1, 1, 1, 0, *[3] * 10), start=2):
            name, residue = f"tdnnf{number}", 0 if number == 4 else None
            small = self.product(f"{name}.linear", *([(x, -stride), (x, 0)] if stride else [(x, 0)]))
            around = [(small, 0), (small, stride)] if stride else [(small, 0)]
            y = self.rectified(name, self.product(f"{name}.affine", *around, residue=residue))
            x = y._replace(rows=torch.add(y.rows, x.between(y.first, y.last, y.step), alpha=0.66))
        x = self.affine("prefinal-l", x)
        x = self.affine("prefinal-chain.affine", x).map(torch.relu)
        x = self.affine("prefinal-chain.linear", self.norm("prefinal-chain.batchnorm1", x))
        return self.affine("output.affine", self.norm("prefinal-chain.batchnorm2", x)).rows


#: A step of an LSTM: its gates, what the step before gave, the peepholes; returns the output and the cell.
Cell = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def lstm_cell(gates: Tensor, cell: Tensor, peepholes: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, dim=1)
    i = torch.sigmoid(torch.addcmul(i, peepholes[0], cell))
    f = torch.sigmoid(torch.addcmul(f, peepholes[1], cell))
    cell = torch.addcmul(f * cell, i, torch.tanh(g))
    return torch.sigmoid(torch.addcmul(o, peepholes[2], cell)) * torch.tanh(cell), cell


def gru_cell(gates: Tensor, new: Tensor, value: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    update, shown = torch.sigmoid(gates).chunk(2, dim=1)
    value = torch.lerp(torch.tanh(torch.addcmul(new, weight, value)), value, update)
    return shown * value, value


class Recurrent(Twin):
    """Layers with loops; `cells` may be replaced by compiled ones."""

    def __init__(self, nnet: Nnet) -> None:
        super().__init__(nnet)
        self.lstm_cell: Cell = lstm_cell
        self.gru_cell = gru_cell
        truncations = {n: c for n, c in nnet.components.items() if c.type_name == "BackpropTruncationComponent"}
        self.scales = {name: float(component.scale) for name, component in truncations.items()}

    def lstm(self, name: str, x: Timed, *, backward: bool = False) -> Timed:
        weight, bias = self.weights[f"{name}_W_all"], self.biases[f"{name}_W_all"]
        projection, scale = self.weights[f"{name}_W_rp"], self.scales[f"{name}.cr_trunc"]
        projection_bias = self.biases[f"{name}_W_rp"]
        split = x.rows.shape[2]
        recurrent = weight.shape[1] - split
        given, back = linear(x.rows, weight[:, :split], bias), scale * weight[:, split:].t()
        forth, forth_bias = projection[:recurrent].t(), projection_bias[:recurrent]
        peepholes = self.weights[f"{name}_lstm_nonlin"]
        values, loops = [], []
        cell = r = None
        for gates in given.flip(0) if backward else given:
            if r is not None:
                gates = torch.addmm(gates, r, back)
            cell = gates.new_zeros(len(gates), peepholes.shape[1]) if cell is None else scale * cell
            value, cell = self.lstm_cell(gates, cell, peepholes)
            r = torch.addmm(forth_bias, value, forth)
            values.append(value)
            loops.append(r)
        if backward:
            values, loops = values[::-1], loops[::-1]
        others = linear(torch.stack(values), projection[recurrent:], projection_bias[recurrent:])
        return x._replace(rows=torch.cat([torch.stack(loops), others], dim=2))

    def output_gru(self, name: str, x: Timed) -> Timed:
        """The values before batch-norm."""
        names = (f"{name}_W_z_xs_z", f"{name}_W_z_xs_o")
        gates_weight = torch.cat([self.weights[each] for each in names])
        gates_bias = torch.cat([self.biases[each] for each in names])
        split = x.rows.shape[2]
        given, back = linear(x.rows, gates_weight[:, :split], gates_bias), gates_weight[:, split:].t()
        new = linear(x.rows, self.weights[f"{name}_W_h_UW"], self.biases[f"{name}_W_h_UW"])
        weight = self.weights[f"{name}_W_h_UW_elementwise"]
        projection, bias = self.weights[f"{name}_W_s_ys"], self.biases[f"{name}_W_s_ys"]
        recurrent = back.shape[0]
        forth, forth_bias = projection[:recurrent].t(), bias[:recurrent]
        value, past = new.new_zeros(new.shape[1:]), None
        shown, loops = [], []
        for gates, other in zip(given, new, strict=True):
            if past is not None:
                gates = torch.addmm(gates, past, back)
            out, value = self.gru_cell(gates, other, value, weight)
            loop = torch.addmm(forth_bias, out, forth)
            past = loop * loop.square().mean(dim=1, keepdim=True).clamp_min(2.0**-66).rsqrt()
            shown.append(out)
            loops.append(loop)
        others = linear(torch.stack(shown), projection[recurrent:], bias[recurrent:])
        return x._replace(rows=torch.cat([torch.stack(loops), others], dim=2))


class TdnnLstm(Recurrent):
    def run(self, x: Timed, ivector: Tensor) -> Tensor:
        r = 5 % FACTOR  # outputs are five frames late
        x = self.relu_layer("tdnn1", (self.spliced_input(x, ivector, 1), 0))
        x2 = self.product("tdnn2l", (x, -1), (x, 0))
        x = self.relu_layer("tdnn2", (x2, 0), (x2, 1))
        x3 = self.affine("tdnn3l", x)
        x = self.relu_layer("tdnn3", (x3, 0))
        x4 = self.product("tdnn4l", (x, -1), (x, 0))
        x = self.relu_layer("tdnn4", (x4, 0), (x4, 1), residue=r)
        x5 = self.affine("tdnn5l", x)
        x = self.relu_layer("tdnn5", (x5, 0), (x3, 0), residue=r)
        x6 = self.product("tdnn6l", (x, -3), (x, 0))
        x = self.relu_layer("tdnn6", (x6, 0), (x6, 3))
        lstm = self.lstm("lstm1", self.product("lstm1l", (x, -3), (x, 0)))
        x = self.rectified("tdnn7", self.affine("tdnn7.affine", append(
            (lstm, 0), (lstm, 3), (x6, 0), (x4, 0), (x2, 0), residue=r)))  # fmt: skip
        x8 = self.product("tdnn8l", (x, -3), (x, 0))
        x = self.relu_layer("tdnn8", (x8, 0), (x8, 3))
        lstm = self.lstm("lstm2", self.product("lstm2l", (x, -3), (x, 0)))
        x = self.rectified("tdnn9", self.affine("tdnn9.affine", append(
            (lstm, 0), (lstm, 3), (x8, 0), (x6, 0), (x4, 0), residue=r)))  # fmt: skip
        x10 = self.product("tdnn10l", (x, -3), (x, 0))
        x = self.relu_layer("tdnn10", (x10, 0), (x10, 3))
        lstm = self.lstm("lstm3", self.product("lstm3l", (x, -3), (x, 0)))
        return self.affine("output.affine", lstm._replace(rows=_from(lstm, 5))).rows


class Blstm(Recurrent):
    def run(self, x: Timed, ivector: Tensor) -> Tensor:
        x = self.spliced_input(x, ivector, 2, residue=0)
        for layer in (1, 2, 3):
            both = [self.lstm(f"blstm{layer}-{way}", x, backward=way == "backward") for way in ("forward", "backward")]
            x = append(*((each, 0) for each in both))
        return self.affine("output.affine", x).rows


class TdnnOpgru(Recurrent):
    def run(self, x: Timed, ivector: Tensor) -> Tensor:
        r = 5 % FACTOR
        x = self.relu_layer("tdnn1", (self.spliced_input(x, ivector, 2), 0))
        x = self.relu_layer("tdnn2", *_around(x, 1))
        x = self.relu_layer("tdnn3", *_around(x, 1), residue=r)
        for gru, layers in ((1, (4, 5)), (2, (6, 7))):
            x = self.norm(f"opgru{gru}.batchnorm", self.output_gru(f"opgru{gru}", x))
            for number in layers:
                x = self.relu_layer(f"tdnn{number}", *_around(x, 3))
        last = self.output_gru("opgru3", x)
        last = self.norm("opgru3.batchnorm", last._replace(rows=_from(last, 5)))
        return self.affine("output.affine", last).rows


def _around(x: Timed, distance: int) -> Sequence[tuple[Timed, int]]:
    return [(x, -distance), (x, 0), (x, distance)]


def _from(x: Timed, time: int) -> Tensor:
    return x.between(time, x.last, x.step)


TWINS: dict[str, type[Twin]] = {"tdnnf": Tdnnf, "tdnn_lstm": TdnnLstm, "blstm": Blstm, "tdnn_opgru": TdnnOpgru}
