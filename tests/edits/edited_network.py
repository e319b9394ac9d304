"""A network for tests of edits."""

from __future__ import annotations

from nnet3 import Nnet

CONFIG = """
input-node name=input dim=6
component name=tdnn1.affine type=NaturalGradientAffineComponent input-dim=12 output-dim=10 learning-rate-factor=0.5
component name=tdnn1.relu type=RectifiedLinearComponent dim=10
component name=tdnn1.dropout type=DropoutComponent dim=10 dropout-proportion=0.25
component name=tdnn2.affine type=AffineComponent input-dim=10 output-dim=10 max-change=0.75 l2-regularize=0.01
component name=final type=LinearComponent input-dim=10 output-dim=4 learning-rate=0.02
component-node name=tdnn1.affine component=tdnn1.affine input=Append(Offset(input, -1), input)
component-node name=tdnn1.relu component=tdnn1.relu input=tdnn1.affine
component-node name=tdnn1.dropout component=tdnn1.dropout input=tdnn1.relu
component-node name=tdnn2.affine component=tdnn2.affine input=Sum(tdnn1.dropout, IfDefined(Offset(tdnn2.affine, -3)))
dim-range-node name=half input-node=tdnn2.affine dim=10 dim-offset=0
component-node name=final component=final input=half
output-node name=output input=final
output-node name=output-xent input=tdnn2.affine objective=quadratic
"""


def edited_network() -> Nnet:
    """In test mode, so that its output is not random."""
    nnet = Nnet.from_config(CONFIG)
    nnet.set_test_mode(True)
    return nnet


def node_names(nnet: Nnet) -> list[str]:
    return [node.name for node in nnet.nodes]
