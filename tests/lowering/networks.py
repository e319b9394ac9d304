"""Networks whose schedules tests look at, and requests for them."""

from __future__ import annotations

import numpy as np

import nnet3

TDNN = """
input-node name=input dim=4
input-node name=ivector dim=2
component name=a type=NaturalGradientAffineComponent input-dim=14 output-dim=6
component-node name=a component=a input=Append(Offset(input,-1), input, Offset(input,1), ReplaceIndex(ivector, t, 0))
component name=relu type=RectifiedLinearComponent dim=6
component-node name=relu component=relu input=a
component name=bn type=BatchNormComponent dim=6
component-node name=bn component=bn input=relu
component name=tdnn type=TdnnComponent input-dim=6 output-dim=6 time-offsets=-3,0,3
component-node name=tdnn component=tdnn input=bn
component name=stats type=StatisticsExtractionComponent input-dim=6 output-period=2
component-node name=stats component=stats input=tdnn
component name=pool type=StatisticsPoolingComponent input-dim=13 input-period=2 left-context=4 right-context=4
component-node name=pool component=pool input=stats
output-node name=output input=Append(Round(pool, 2), Sum(tdnn, Scale(0.5, bn)))
"""
LSTM = """
input-node name=input dim=4
component name=W type=NaturalGradientAffineComponent input-dim=7 output-dim=12
component-node name=gates component=W input=Append(input, IfDefined(Offset(m, -1)))
component name=lstm type=LstmNonlinearityComponent cell-dim=3
component-node name=lstm component=lstm input=Append(gates, IfDefined(Offset(c, -1)))
dim-range-node name=c input-node=lstm dim-offset=0 dim=3
dim-range-node name=m input-node=lstm dim-offset=3 dim=3
output-node name=output input=m
"""
CLOCKWORK = """
input-node name=input dim=3
component name=W type=AffineComponent input-dim=6 output-dim=3
component name=tanh type=TanhComponent dim=3
component-node name=a component=W input=Append(input, IfDefined(Switch(Offset(h, -1), Offset(h, -2))))
component-node name=h component=tanh input=a
component-node name=slow component=tanh input=Sum(Round(h, 3), IfDefined(Offset(Round(slow, 3), -3)))
output-node name=output input=Failover(Offset(slow, 3), h)
"""


def request_for(nnet: nnet3.Nnet, num_sequences: int, backward: bool, odd: bool = False) -> nnet3.ComputationRequest:
    """`odd`: the last sequence has one output less, so that not all are alike."""
    sequences, times = np.arange(num_sequences), np.arange(-12, 18)
    rows = np.stack(np.meshgrid(sequences, times, [0], indexing="ij"), axis=-1).reshape(-1, 3)
    inputs = [nnet3.IoSpecification(name, rows, has_deriv=backward) for name in nnet.input_names]
    wanted = rows[(rows[:, 1] >= 0) & (rows[:, 1] < 6)]
    wanted = wanted[:-1] if odd else wanted
    return nnet3.ComputationRequest(inputs, [nnet3.IoSpecification("output", wanted, backward)], backward)
