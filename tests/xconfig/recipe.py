"""An xconfig with a transform, a plain and a factorised layer."""

from __future__ import annotations

XCONFIG = """
input name=ivector dim=4
input name=input dim=3
fixed-affine-layer name=lda input=Append(-1,0,ReplaceIndex(ivector, t, 0)) affine-transform-file=lda.mat
relu-batchnorm-layer name=t1 dim=8 l2-regularize=0.010
tdnnf-layer name=f2 dim=8 bottleneck-dim=2 time-stride=3 l2-regularize=0.010
output-layer name=output input=f2@-3 dim=5 include-log-softmax=false
"""
