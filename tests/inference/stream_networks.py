"""Small networks of all kinds that look into the past, for streams."""

from __future__ import annotations

from typing import Any

import torch

import nnet3

TDNN = """
    input-node name=input dim=4
    component name=a type=AffineComponent input-dim=12 output-dim=6
    component-node name=a component=a input=Append(Offset(input, -1), input, Offset(input, 2))
    component name=relu type=RectifiedLinearComponent dim=6
    component-node name=relu component=relu input=a
    component name=tdnn type=TdnnComponent input-dim=6 output-dim=5 time-offsets=-3,0,3
    component-node name=tdnn component=tdnn input=relu
    output-node name=output input=Sum(tdnn, Offset(tdnn, 3))
"""
IVECTOR = """
    input-node name=input dim=3
    input-node name=ivector dim=2
    component name=a type=AffineComponent input-dim=10 output-dim=4
    component-node name=a component=a \
        input=Append(Offset(input, -1), Offset(input, 4), ReplaceIndex(ivector, t, 0), ReplaceIndex(ivector, t, 0))
    component name=b type=AffineComponent input-dim=8 output-dim=4
    component-node name=b component=b input=Append(Offset(a, -6), a)
    output-node name=output input=b
"""
LSTM = """
    input-node name=input dim=4
    component name=W type=AffineComponent input-dim=7 output-dim=12
    component-node name=gates component=W input=Append(Offset(input, 1), IfDefined(Offset(m, -3)))
    component name=lstm type=LstmNonlinearityComponent cell-dim=3
    component-node name=lstm component=lstm input=Append(gates, IfDefined(Offset(c, -3)))
    dim-range-node name=c input-node=lstm dim-offset=0 dim=3
    dim-range-node name=m input-node=lstm dim-offset=3 dim=3
    output-node name=output input=Sum(m, IfDefined(Offset(m, -6)))
"""
STATISTICS = """
    input-node name=input dim=3
    component name=tanh type=TanhComponent dim=3
    component-node name=tanh component=tanh input=Sum(input, IfDefined(Offset(input, -2)))
    component name=stats type=StatisticsExtractionComponent input-dim=3 input-period=1 output-period=5
    component-node name=stats component=stats input=Sum(tanh, IfDefined(Offset(tanh, 1)))
    component name=pool type=StatisticsPoolingComponent input-dim=7 input-period=5 left-context=20 right-context=10
    component-node name=pool component=pool input=stats
    output-node name=output input=Append(Round(pool, 5), tanh)
"""
BLOCKS = """
    input-node name=input dim=3
    component name=stats type=StatisticsExtractionComponent input-dim=3 input-period=1 output-period=5
    component-node name=stats component=stats input=IfDefined(Offset(input, -1))
    output-node name=output input=Append(stats, input)
"""
BACKWARD = """
    input-node name=input dim=3
    component name=W type=AffineComponent input-dim=6 output-dim=3
    component name=tanh type=TanhComponent dim=3
    component-node name=a component=W input=Append(input, IfDefined(Offset(h, 2)))
    component-node name=h component=tanh input=a
    component-node name=b component=W input=Append(h, Failover(Offset(input, 4), Offset(g, -1)))
    component-node name=g component=tanh input=b
    output-node name=output input=Append(Offset(h, 2), IfDefined(g))
"""
ATTENTION = """
    input-node name=input dim=10
    component name=attention type=RestrictedAttentionComponent num-heads=1 key-dim=3 value-dim=4 num-left-inputs=3 \
        num-right-inputs=2 time-stride=2 num-left-inputs-required=1 num-right-inputs-required=0
    component name=a type=AffineComponent input-dim=10 output-dim=16
    component-node name=a component=a input=input
    component-node name=attention component=attention input=a
    output-node name=output input=attention
"""
CONVOLUTION = """
    input-node name=input dim=4
    component name=conv type=TimeHeightConvolutionComponent num-filters-in=1 num-filters-out=2 height-in=4 \
        height-out=4 height-offsets=-1,0,1 time-offsets=-2,0,2 required-time-offsets=0
    component-node name=conv component=conv input=IfDefined(Offset(input, 1))
    component name=tanh type=TanhComponent dim=8
    component-node name=tanh component=tanh input=Sum(conv, Offset(conv, -1))
    output-node name=output input=tanh
"""
FIXED = """
    input-node name=input dim=3
    component name=W type=AffineComponent input-dim=6 output-dim=3
    component-node name=a component=W input=Append(input, IfDefined(Offset(h, -1)))
    component name=tanh type=TanhComponent dim=3
    component-node name=h component=tanh input=a
    component-node name=y component=tanh input=Sum(h, ReplaceIndex(h, t, 2), Switch(input, Offset(input, 2)))
    output-node name=output input=y
"""
ECHO = """
    input-node name=input dim=2
    component name=tanh type=TanhComponent dim=2
    component-node name=tanh component=tanh input=input
    output-node name=output input=Sum(tanh, IfDefined(Offset(tanh, -20)))
"""
CONFIGS = {
    "echo": ECHO,
    "tdnn": TDNN,
    "ivector": IVECTOR,
    "lstm": LSTM,
    "statistics": STATISTICS,
    "blocks": BLOCKS,
    "backward": BACKWARD,
    "attention": ATTENTION,
    "convolution": CONVOLUTION,
    "fixed": FIXED,
}


def network(name: str) -> nnet3.Nnet:
    """Returns one of them, with parameters that are not small."""
    nnet = nnet3.Nnet.from_config(CONFIGS[name], seed=3)
    nnet.scale_(3.0)
    return nnet


def make_streams(
    name: str, frames_per_chunk: int = 7, num_streams: int = 1, frame_subsampling_factor: int = 1, **options: Any
) -> nnet3.StreamComputer:
    """Returns a computer of one of them."""
    return nnet3.StreamComputer(network(name), frames_per_chunk, num_streams, frame_subsampling_factor, **options)


def make_features(streams: nnet3.StreamComputer, frames: int, seed: int = 0) -> torch.Tensor:
    """Returns random frames."""
    return torch.randn(frames, streams.nnet.node_dim("input"), generator=torch.Generator().manual_seed(seed))


def make_ivectors(streams: nnet3.StreamComputer, number: int) -> torch.Tensor | None:
    """Returns random ivectors (number, dim), None for a network without."""
    if "ivector" not in streams.nnet.input_names:
        return None
    return torch.randn(number, streams.nnet.node_dim("ivector"), generator=torch.Generator().manual_seed(1))


def make_ivector(streams: nnet3.StreamComputer) -> torch.Tensor | None:
    """Returns the first of them."""
    ivectors = make_ivectors(streams, 1)
    return None if ivectors is None else ivectors[0]
