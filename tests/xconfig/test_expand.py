from __future__ import annotations

import re

import pytest

from nnet3.errors import ConfigError
from nnet3.model.xconfig.expansion import Output
from nnet3.model.xconfig.input_descriptor import Known
from nnet3.model.xconfig.term import add, name, offset
from nnet3.xconfig import expand_xconfig, is_xconfig
from tests.xconfig.recipe import XCONFIG

F2 = (
    "tdnnf-layer name=f2 bottleneck-dim=2 bypass-scale=0.66 context=default dim=8 dropout-proportion=-1.0 input={} "
    "l2-regularize=0.01 max-change=0.75 self-repair-scale=1e-05 time-stride=3"
)


def test_the_three_configs() -> None:
    expanded = expand_xconfig(XCONFIG)
    spliced = "Append(Offset(input, -1), input, ReplaceIndex(ivector, t, 0))"
    inputs = ["input-node name=ivector dim=4", "input-node name=input dim=3"]
    assert expanded.config("init").splitlines() == [*inputs, f"output-node name=output input={spliced}"]
    final, ref = expanded.config().splitlines(), expanded.config("ref").splitlines()
    assert final[:4] == [
        *inputs,
        "component name=lda type=FixedAffineComponent matrix=lda.mat",
        f"component-node name=lda component=lda input={spliced}",
    ]
    assert [(a, b) for a, b in zip(final, ref, strict=True) if a != b] == [
        (final[2], "component name=lda type=FixedAffineComponent input-dim=10 output-dim=10")
    ]
    noop = "component-node name=f2.noop component=f2.noop input=Sum(Scale(0.66, t1.batchnorm), f2.batchnorm)"
    assert noop in final
    assert final[-1] == "output-node name=output input=output.affine objective=linear"


def test_lines_with_all_values() -> None:
    expanded = expand_xconfig(XCONFIG)
    assert expanded.layer_lines()[4] == F2.format("[-1]")
    assert expanded.layer_lines(normal=True)[4] == F2.format("t1")
    assert expanded.layer_lines()[0] == "input name=ivector dim=4"
    assert "include-log-softmax=False input=f2@-3" in expanded.layer_lines()[5]


def test_nodes_of_a_model_come_first() -> None:
    known = [Known("t1.relu", Output(name("t1.relu"), 6)), Known("t1", Output(name("t1"), 5))]
    text = "linear-component name=a input=Append(t1.relu@1, t1) dim=2\nlinear-component name=t1 dim=3"
    lines = expand_xconfig(text, existing=known).config().splitlines()
    assert lines[1].endswith("input=Append(Offset(t1.relu, 1), t1)")
    assert "input-dim=11 output-dim=2" in lines[0]
    assert lines[3] == "component-node name=t1 component=t1 input=a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an xconfig without any layer"),
        ("input name=a dim=3\nrelu-layr name=b", "2:1: unknown layer type 'relu-layr'"),
        ("input-node name=a dim=3", "this is a line of a config"),
        ("input name=a dim=3\ninput name=a dim=4", "2:12: the layer name 'a' is already taken in line 1"),
        ("input name=a", "1:1: input 'a': 'dim=' is missing: it must be > 0"),
        ("input name=a dim=0", "1:18: input 'a': 'dim' must be > 0, got 0"),
        ("input name=a dim=x", "1:18: input 'a': 'dim' must be an integer, got 'x'"),
        ("input name=a dim=99999999999999999999999999", "an integer that fits 32 bits"),
        ("input name=a input=a dim=3", "1:14: input 'a': unknown key 'input'"),
        ("input name=a dim=3\nrelu-layer name=b self-repair-scale=2", "must be within [0, 1], got 2.0"),
        ("input name=a dim=3\nrelu-layer name=b target-rms=1_0", "must be a number, got '1_0'"),
        ("input name=a dim=3\nrelu-layer name=b add-log-stddev=yes", "must be true or false, got 'yes'"),
        ("input name=a dim=3\nrelu-layer name=b add-log-stddev=TRUE", "must be true or false, got 'TRUE'"),
        ("input name=a dim=3\nrelu-layer name=b ng-affine-options=foo", "must be key=value pairs in double quotes"),
        ("input name=a dim=3\nrelu-layer name=b max_change=3", "did you mean 'max-change'?"),
    ],
)
def test_errors_say_where_and_what(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        expand_xconfig(text, "net.xconfig")


def test_what_is_an_xconfig() -> None:
    assert is_xconfig(XCONFIG)
    assert is_xconfig("relu-layr name=b\n # input-node\ninput name=a")
    assert not is_xconfig("input-node name=input dim=3\noutput-node name=output input=input")
    assert not is_xconfig("input-node name=input dim=3\ninput name=a dim=4")
    assert not is_xconfig("")


def test_terms_print_and_substitute() -> None:
    whole = add(offset(name("a"), -1), name("b"))
    assert str(whole.substitute({"a": offset(name("c"), 2)})) == "Sum(Offset(Offset(c, 2), -1), b)"
    assert whole.names() == ["a", "b"]
    assert offset(name("a"), 1, tight=True) == offset(name("a"), 1)
    assert str(offset(name("a"), 1, tight=True)) == "Offset(a,1)"
