"""Recurrences over inputs at several offsets: affine loops and stacks of LSTM layers, with requests for training."""

from __future__ import annotations

from collections.abc import Sequence

import nnet3
from nnet3.xconfig import expand_xconfig
from tests.random_networks import RandomNetwork

LAGS = (-3, -2, -1, 1, 2, 3)
LSTM_LAYERS = {
    "fast-lstm-layer": "cell-dim=3",
    "fast-lstm-batchnorm-layer": "cell-dim=3",
    "lstmb-layer": "cell-dim=3 bottleneck-dim=2",
    "fast-lstmp-layer": "cell-dim=3 recurrent-projection-dim=2 non-recurrent-projection-dim=1",
    "fast-lstmp-batchnorm-layer": "cell-dim=3 recurrent-projection-dim=2 non-recurrent-projection-dim=1",
}
WIDTH = 2
_REACH = 9  # frames of input before and after the outputs


def affine_loop(
    offsets: Sequence[int], lag: int, *, over: str = "input", joined: str = "Append", first: bool = False
) -> RandomNetwork:
    """A loop h(t) = tanh(W [x(t + o) of all offsets, h(t - lag)]); h comes `first` or last among the columns.

    `over`: what x is, the "input" or a "layer" above it, which learns. `joined`: "Append", or "Sum" for a sum of the
    first two offsets.
    """
    source = "input" if over == "input" else "below"
    terms = [f"Offset({source}, {offset})" if offset else source for offset in offsets]
    parts = terms if joined == "Append" else [f"Sum({', '.join(terms[:2])})", *terms[2:]]
    parts = [f"IfDefined(Offset(h, {-lag}))", *parts] if first else [*parts, f"IfDefined(Offset(h, {-lag}))"]
    affine = "type=AffineComponent param-stddev=0.4 bias-stddev=0.3"
    layer = f"""
        component name=l {affine} input-dim={WIDTH} output-dim={WIDTH}
        component-node name=below component=l input=input"""
    config = f"""
        input-node name=input dim={WIDTH}{layer if over == "layer" else ""}
        component name=c {affine} input-dim={WIDTH * len(parts)} output-dim={WIDTH}
        component name=tanh type=TanhComponent dim={WIDTH}
        component-node name=a component=c input=Append({", ".join(parts)})
        component-node name=h component=tanh input=a
        output-node name=output input=h
    """
    return _trained(config)


def lstm_stack(layer: str, delay: int, offsets: Sequence[int]) -> RandomNetwork:
    """Two layers of a type, the second above the first at several offsets, which looks at the input at these.

    Derivatives are neither cut nor repaired, so that finite differences hold.
    """

    def spliced(name: str) -> str:
        return ", ".join(f"Offset({name}, {offset})" if offset else name for offset in offsets)

    uncut = 'clipping-threshold=1000 zeroing-threshold=1000 lstm-nonlinearity-options="self-repair-scale=0"'
    more = f"{LSTM_LAYERS[layer]} delay={delay} {uncut}"
    config = f"""
        input dim={WIDTH} name=input
        {layer} name=one {more} input=Append({spliced("input")})
        {layer} name=two {more} input=Append({spliced("one")})
        output name=output input=two
    """
    return _trained(expand_xconfig(config).config())


def _trained(config: str) -> RandomNetwork:
    """The network with a request for two sequences: outputs, derivatives of the input, gradients."""

    def rows(first: int, end: int) -> list[tuple[int, int]]:
        return [(n, t) for t in range(first, end) for n in range(2)]

    inputs = [nnet3.IoSpecification("input", rows(-_REACH, 6 + _REACH), has_deriv=True)]
    outputs = [nnet3.IoSpecification("output", rows(0, 6), has_deriv=True)]
    return RandomNetwork(0, config, nnet3.ComputationRequest(inputs, outputs, need_model_derivative=True))
