"""A TDNN-F acoustic model (15 layers of 1536/160 in its full size), as an nnet3 config and hand-written in PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nnet3 import Nnet

STRIDES = (1, 1, 1, 0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3)  # time strides of layers 2 to 15


def tdnnf_config(dim: int = 1536, bottleneck: int = 160, num_outputs: int = 2000, input_dim: int = 40) -> str:
    """The config text; trained with max-change, L2 and the orthonormal constraint, as recipes do."""
    lines = [
        f"input-node name=input dim={input_dim}",
        _component(
            "tdnn1.affine", "NaturalGradientAffine", f"input-dim={3 * input_dim} output-dim={dim} max-change=0.75"
        ),
        _node("tdnn1.affine", "Append(Offset(input, -1), input, Offset(input, 1))"),
        *_relu_and_norm("tdnn1", "tdnn1.affine", dim),
    ]
    previous = "tdnn1.norm"
    for number, stride in enumerate(STRIDES, start=2):
        name = f"tdnnf{number}"
        left, right = (f"-{stride},0", f"0,{stride}") if stride else ("0", "0")
        common = "max-change=0.75 l2-regularize=0.01"
        lines += [
            _component(
                f"{name}.linear",
                "Tdnn",
                f"input-dim={dim} output-dim={bottleneck} time-offsets={left} use-bias=false "
                f"orthonormal-constraint=-1.0 {common}",
            ),
            _node(f"{name}.linear", previous),
            _component(
                f"{name}.affine", "Tdnn", f"input-dim={bottleneck} output-dim={dim} time-offsets={right} {common}"
            ),
            _node(f"{name}.affine", f"{name}.linear"),
            *_relu_and_norm(name, f"{name}.affine", dim),
            _component(f"{name}.noop", "NoOp", f"dim={dim}"),
            _node(f"{name}.noop", f"Sum(Scale(0.66, {previous}), {name}.norm)"),
        ]
        previous = f"{name}.noop"
    lines += [
        _component(
            "output.affine", "NaturalGradientAffine", f"input-dim={dim} output-dim={num_outputs} max-change=1.5"
        ),
        _node("output.affine", previous),
        _component("output.log-softmax", "LogSoftmax", f"dim={num_outputs}"),
        _node("output.log-softmax", "output.affine"),
        "output-node name=output input=output.log-softmax",
    ]
    return "\n".join(lines)


def _component(name: str, type_name: str, keys: str) -> str:
    return f"component name={name} type={type_name}Component {keys}"


def _node(name: str, source: str) -> str:
    return f"component-node name={name} component={name} input={source}"


def _relu_and_norm(name: str, source: str, dim: int) -> list[str]:
    return [
        _component(f"{name}.relu", "RectifiedLinear", f"dim={dim} self-repair-scale=1e-5"),
        _node(f"{name}.relu", source),
        _component(f"{name}.norm", "BatchNorm", f"dim={dim}"),
        _node(f"{name}.norm", f"{name}.relu"),
    ]


class TdnnfTwin(nn.Module):
    """The same function as one would write it: convolutions over (sequences, dim, frames), with the same weights."""

    def __init__(self, nnet: Nnet):
        super().__init__()
        components = nnet.components
        self.first = _convolution(*_weights(components["tdnn1.affine"]), num_offsets=3, dilation=1)
        dim = self.first.out_channels
        self.norms = nn.ModuleList(nn.BatchNorm1d(dim, eps=1e-3, affine=False) for _ in range(len(STRIDES) + 1))
        self.linears, self.affines = nn.ModuleList(), nn.ModuleList()
        for number, stride in enumerate(STRIDES, start=2):
            offsets = 2 if stride else 1
            weights = _weights(components[f"tdnnf{number}.linear"])
            self.linears.append(_convolution(*weights, num_offsets=offsets, dilation=max(1, stride)))
            weights = _weights(components[f"tdnnf{number}.affine"])
            self.affines.append(_convolution(*weights, num_offsets=offsets, dilation=max(1, stride)))
        self.last = _convolution(*_weights(components["output.affine"]), num_offsets=1, dilation=1)

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities (sequences, outputs, frames) of input (sequences, dim, frames with context)."""
        x = self.norms[0](torch.relu(self.first(x)))
        for stride, linear, affine, norm in zip(STRIDES, self.linears, self.affines, self.norms[1:], strict=True):
            y = norm(torch.relu(affine(linear(x))))
            x = 0.66 * (x[:, :, stride:-stride] if stride else x) + y
        return torch.log_softmax(self.last(x), dim=1)


def _weights(component: object) -> tuple[Tensor, Tensor | None]:
    parameters = component.parameters()  # type: ignore[attr-defined]
    bias = parameters.get("bias_params")
    return parameters["linear_params"], bias if bias is not None and len(bias) else None


def _convolution(weight: Tensor, bias: Tensor | None, *, num_offsets: int, dilation: int) -> nn.Conv1d:
    """A convolution whose kernel is the matrix (out, offsets * in)."""
    out_dim, in_dim = weight.shape[0], weight.shape[1] // num_offsets
    layer = nn.Conv1d(in_dim, out_dim, num_offsets, dilation=dilation, bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(weight.view(out_dim, num_offsets, in_dim).permute(0, 2, 1))
        if bias is not None and layer.bias is not None:
            layer.bias.copy_(bias)
    return layer
