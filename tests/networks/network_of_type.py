"""A small network round a component of each type, and requests for it."""

from __future__ import annotations

import torch

import nnet3
from nnet3.components import create
from tools.component_samples import SAMPLES

# A pooling component reads counts, which have no derivative: it gets them from an extraction component.
_POOLING = """
component name=extract type=StatisticsExtractionComponent input-dim=3 input-period=1 output-period=2
component name=tested type=StatisticsPoolingComponent input-dim=7 input-period=2 left-context=2 right-context=2
component-node name=extract component=extract input=input
component-node name=tested component=tested input=extract
"""


def _config(type_name: str) -> str:
    """The sample; where self-repair is on by default it is off, since it is no derivative."""
    return SAMPLES[type_name] + (" self-repair-scale=0" if "Lstm" in type_name or "Gru" in type_name else "")


def network_of_type(type_name: str) -> nnet3.Nnet:
    """`tested` is the component; but for batch-norm it is in test mode. In float64."""
    component = create(type_name, _config(type_name))
    dim = 3 if type_name == "StatisticsPoolingComponent" else component.input_dim
    body = _POOLING
    if type_name != "StatisticsPoolingComponent":
        body = f"""component name=tested type={type_name} {_config(type_name)}
            component-node name=tested component=tested input=input"""
    nnet = nnet3.Nnet.from_config(f"input-node name=input dim={dim}\n{body}\noutput-node name=output input=tested")
    for name, part in nnet.components.items():
        if name == "tested" and type_name != "BatchNormComponent":
            part.set_test_mode(True)
    return nnet.to(dtype=torch.float64)


def request_of_type(type_name: str, sequences: int = 2) -> nnet3.ComputationRequest:
    """Frames that the component can compute of so many sequences, with all derivatives."""
    times = {"StatisticsExtractionComponent": (0, 2), "StatisticsPoolingComponent": (2, 4)}.get(type_name, (2, 3, 4))
    x_values = range(2) if type_name == "DistributeComponent" else range(1)
    inputs = [(n, t, 0) for t in range(8) for n in range(sequences)]
    outputs = [(n, t, x) for t in times for x in x_values for n in range(sequences)]
    return nnet3.ComputationRequest(
        [nnet3.IoSpecification("input", inputs, has_deriv=True)],
        [nnet3.IoSpecification("output", outputs, has_deriv=True)],
        need_model_derivative=True,
    )
