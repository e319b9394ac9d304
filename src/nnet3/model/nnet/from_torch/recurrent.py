"""What recurrent modules of PyTorch are in a network: LSTM, GRU and RNN, of several layers and both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nnet3.model.nnet.from_torch.layers import add_dropout
from nnet3.model.nnet.stack import Stack


class _Cells(NamedTuple):
    """The parameters of one layer in one direction; biases and projection are None where the module has none."""

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    weight_hr: Tensor | None

    @property
    def weight(self) -> Tensor:
        """For input and last output side by side."""
        return torch.cat([self.weight_ih, self.weight_hh], 1)

    @property
    def bias(self) -> Tensor:
        """The sum of both; 0 where the module has none."""
        if self.bias_ih is None or self.bias_hh is None:
            return self.weight_ih.new_zeros(len(self.weight_ih))
        return self.bias_ih + self.bias_hh


_Direction = Callable[[Stack, str, _Cells, int], str]


def _recurrent(stack: Stack, name: str, module: nn.RNNBase, direction: _Direction) -> None:
    """Adds all layers; `direction` adds one that looks at its output `lag` rows later, and returns its node."""
    dim = module.proj_size or module.hidden_size
    for layer in range(module.num_layers):
        outputs = []
        here = f"{name}.layer{layer + 1}" if module.num_layers > 1 else name
        for suffix, lag, side in (("", -1, "forward"), ("_reverse", 1, "backward"))[: 1 + module.bidirectional]:
            kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
            parameters: list[Any] = [getattr(module, f"{kind}_l{layer}{suffix}", None) for kind in kinds]
            cells = _Cells(*parameters)
            outputs.append(direction(stack, f"{here}.{side}" if module.bidirectional else here, cells, lag))
        width = dim * len(outputs)
        both = stack.same(f"{here}.both", width, f"Append({', '.join(outputs)})") if len(outputs) > 1 else outputs[0]
        stack.goes_on(both, width)
        if module.dropout and layer + 1 < module.num_layers:
            stack.goes_on(add_dropout(stack, f"{here}.dropout", module.dropout), width)


def lstm(stack: Stack, name: str, module: nn.LSTM) -> None:
    _recurrent(stack, name, module, _lstm)


def gru(stack: Stack, name: str, module: nn.GRU) -> None:
    _recurrent(stack, name, module, _gru)


def rnn(stack: Stack, name: str, module: nn.RNN) -> None:
    type_name = "TanhComponent" if module.nonlinearity == "tanh" else "RectifiedLinearComponent"

    def direction(stack: Stack, name: str, cells: _Cells, lag: int) -> str:
        """h_t = f(W x_t + U h_{t-1} + b)."""
        dim = len(cells.weight_hh)
        affine = _of_input_and_last(stack, f"{name}.affine", cells.weight, cells.bias, _last(stack, name, lag))
        return stack.plain(name, type_name, dim, affine)

    _recurrent(stack, name, module, direction)


def _last(stack: Stack, node: str, lag: int) -> str:
    return f"IfDefined({stack.at(node, lag)})"


def _of_input_and_last(stack: Stack, name: str, weight: Tensor, bias: Tensor, last: str) -> str:
    return stack.affine(name, weight, bias, f"Append({stack.here}, {last})")


def _lstm(stack: Stack, name: str, cells: _Cells, lag: int) -> str:
    """Adds the parts of a fast-lstm-layer, without peepholes; returns its output. Gates are in the order i, f, g, o."""
    dim = cells.weight_hh.shape[0] // 4
    width = cells.weight_hh.shape[1]  # of what is fed back
    last = _last(stack, f"{name}.m_trunc", lag)
    gates = _of_input_and_last(stack, f"{name}.W_all", cells.weight, cells.bias, last)
    seen = f"Append({gates}, {_last(stack, f'{name}.c_trunc', lag)})"
    config = f"cell-dim={dim} param-stddev=0"
    nonlinearity = stack.configured(f"{name}.lstm_nonlin", "LstmNonlinearityComponent", seen, config)
    if cells.weight_hr is None:
        output = stack.columns(f"{name}.m", nonlinearity, dim, dim)
        fed_back = nonlinearity
    else:
        stack.columns(f"{name}.c", nonlinearity, 0, dim)
        memory = stack.columns(f"{name}.m", nonlinearity, dim, dim)
        output = stack.affine(f"{name}.W_rp", cells.weight_hr, None, memory)
        fed_back = f"Append({name}.c, {output})"
    config = f"dim={dim + width} recurrence-interval={stack.step}"
    cut = stack.configured(f"{name}.cm_trunc", "BackpropTruncationComponent", fed_back, config)
    stack.columns(f"{name}.c_trunc", cut, 0, dim)
    stack.columns(f"{name}.m_trunc", cut, dim, width)
    return output


def _gru(stack: Stack, name: str, cells: _Cells, lag: int) -> str:
    """r, z = sigma(W x_t + U h_{t-1} + b); n = tanh(W_n x_t + b_n + r (U_n h_{t-1} + c_n)); h_t = n + z (h_{t-1} - n).

    Kaldi's own GRU multiplies h_{t-1} by r before U_n.
    """
    dim = len(cells.weight_hh) // 3
    last = _last(stack, name, lag)
    rz = slice(2 * dim)
    affine = _of_input_and_last(stack, f"{name}.rz_affine", cells.weight[rz], cells.bias[rz], last)
    gates = stack.plain(f"{name}.rz", "SigmoidComponent", 2 * dim, affine)
    r, z = (stack.columns(f"{name}.{gate}", gates, first, dim) for gate, first in (("r", 0), ("z", dim)))
    of_n = slice(2 * dim, None)
    own, of_last = (None if bias is None else bias[of_n] for bias in (cells.bias_ih, cells.bias_hh))
    from_input = stack.affine(f"{name}.n_affine", cells.weight_ih[of_n], own, stack.here)
    from_last = stack.affine(f"{name}.n_back", cells.weight_hh[of_n], of_last, last)
    reset = stack.product(f"{name}.n_reset", dim, r, from_last)
    n = stack.plain(f"{name}.n", "TanhComponent", dim, f"Sum({from_input}, {reset})")
    kept = stack.product(f"{name}.kept", dim, z, last)
    replaced = stack.product(f"{name}.replaced", dim, z, n)
    return stack.same(name, dim, f"Sum({n}, Sum({kept}, Scale(-1.0, {replaced})))")
