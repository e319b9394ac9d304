"""Small networks of which pages are made, and their requests."""

from __future__ import annotations

from pathlib import Path

from nnet3.cn import Network, cross_entropy_with_softmax, input, macros, parameter, softmax
from nnet3.model.nnet import Nnet, load_nnet
from nnet3.model.requests import ComputationRequest, IoSpecification

XCONFIG = """
input name=input dim=5
relu-batchnorm-layer name=tdnn1 dim=16 input=Append(-1,0,1)
tdnnf-layer name=tdnnf2 dim=16 bottleneck-dim=4 time-stride=1
fast-lstmp-layer name=lstm cell-dim=8 recurrent-projection-dim=4 non-recurrent-projection-dim=4 delay=-3
output-layer name=output dim=3
"""
HOSTILE = "<script>alert(1)</script>"


def lstm() -> Nnet:
    """Layers of several kinds, one of them recurrent."""
    return Nnet.from_xconfig(XCONFIG, seed=0)


def request(nnet: Nnet, frames: int = 10, *, backward: bool = True) -> ComputationRequest:
    """Asks for so many frames of the output, and for a training step."""
    given = [(0, t, 0) for t in range(-nnet.left_context, frames + nnet.right_context)]
    wanted = IoSpecification("output", [(0, t, 0) for t in range(frames)], has_deriv=backward)
    inputs = [IoSpecification("input", given)]
    return ComputationRequest(inputs, [wanted], need_model_derivative=backward, store_component_stats=backward)


def computational_network() -> Network:
    """An LSTM with a criterion."""
    x, labels = input("x", 3), input("labels", 2)
    scores = parameter("V", (2, 4)) @ macros.lstm(x, 4).h
    return Network(cross_entropy_with_softmax(labels, scores, name="J"), {"posterior": softmax(scores)})


def hostile(folder: Path) -> Nnet:
    """A network whose component is called like a piece of HTML, as a model file may have it."""
    plain = Nnet.from_config("""
        input-node name=input dim=2
        component name=COMPONENT type=AffineComponent input-dim=2 output-dim=3
        component-node name=a component=COMPONENT input=input
        output-node name=output input=a
    """)
    path = folder / "hostile.raw"
    plain.save(path, binary=False)
    path.write_text(path.read_text().replace("COMPONENT", HOSTILE))
    return load_nnet(path)


def long_chain(layers: int) -> Nnet:
    """Many layers, one after the other."""
    lines = ["input-node name=input dim=2", "component name=c type=SigmoidComponent dim=2"]
    for k in range(layers):
        source = f"Sum(n{k - 1}, input)" if k else "input"
        lines.append(f"component-node name=n{k} component=c input={source}")
    return Nnet.from_config("\n".join([*lines, f"output-node name=output input=n{layers - 1}"]))
