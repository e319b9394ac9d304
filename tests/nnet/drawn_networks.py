"""Networks that tests draw."""

from __future__ import annotations

TDNN = """
input-node name=input dim=4
input-node name=ivector dim=3
component name=tdnn1.affine type=AffineComponent input-dim=11 output-dim=6
component name=tdnn1.relu type=RectifiedLinearComponent dim=6
component name=tdnn2.linear type=TdnnComponent input-dim=6 output-dim=2 time-offsets=-1,0
component name=tdnn2.affine type=TdnnComponent input-dim=2 output-dim=6 time-offsets=0,3
component name=noop type=NoOpComponent dim=6
component-node name=tdnn1.affine component=tdnn1.affine input=Append({}, ReplaceIndex(ivector, t, 0))
component-node name=tdnn1.relu component=tdnn1.relu input=tdnn1.affine
component-node name=tdnn2.linear component=tdnn2.linear input=tdnn1.relu
component-node name=tdnn2.affine component=tdnn2.affine input=tdnn2.linear
component-node name=tdnn2.noop component=noop input=Sum(Scale(0.5, tdnn1.relu), tdnn2.affine)
output-node name=output input=Round(tdnn2.noop, 3)
""".format("Offset(input, -1), Offset(input, 2)")

RNN = """
input-node name=input dim=2
component name=affine type=AffineComponent input-dim=4 output-dim=2
component name=tanh type=TanhComponent dim=2
component-node name=sum component=affine input=Append(input, IfDefined(Offset(h, -1)))
component-node name=h component=tanh input=sum
output-node name=output input=Offset(h, 1)
"""
