from __future__ import annotations

from nnet3.model.xconfig.expansion import Output
from nnet3.model.xconfig.layer import expand_layer
from nnet3.model.xconfig.term import name
from nnet3.xconfig import expand_xconfig, layer_type, make_layer
from tests.xconfig.recipe import XCONFIG


def test_a_layer_alone_from_values() -> None:
    values = {"dim": 8, "bottleneck-dim": 2, "time-stride": 3, "l2-regularize": 0.01}
    layer = make_layer(layer_type("tdnnf-layer"), "f2", values, name("t1.batchnorm"), 8)
    expansion = expand_layer(layer)
    whole = next(e for e in expand_xconfig(XCONFIG).layers if e.layer.name == "f2")
    assert expansion == whole.expansion
    assert expansion.output == Output(name("f2.noop"), 8)
