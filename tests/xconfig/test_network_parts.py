from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnet3 import Nnet, load
from nnet3.errors import ArgumentError, ConfigError
from tests.xconfig.lda_network import LDA, XCONFIG, write_matrix


def test_the_same_network_as_from_the_expanded_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("configs").mkdir()
    write_matrix(Path("configs/lda.mat"), LDA)
    given, read = Nnet.from_xconfig(XCONFIG, lda=LDA, seed=3), Nnet.from_xconfig(XCONFIG, seed=3)
    as_config = Nnet.from_config(XCONFIG, seed=3)
    for nnet in (given, read, as_config):
        nnet.save("net.raw", binary=False)
        text = Path("net.raw").read_text()
        assert text == given_text(given)


def given_text(nnet: Nnet) -> str:
    nnet.save("given.raw", binary=False)
    return Path("given.raw").read_text()


def test_layers_on_top_of_a_network() -> None:
    nnet = Nnet.from_xconfig(XCONFIG, lda=LDA)
    t1 = nnet.components["t1.affine"]
    nnet.apply_xconfig("relu-layer name=t2 dim=6 input=Append(t1.batchnorm@-1, lda)\noutput-layer name=output dim=2")
    assert nnet.components["t1.affine"] is t1
    assert nnet.components["t2.affine"].input_dim == 12
    assert nnet.node_dim("output") == 2
    assert nnet.node_dim("output.affine") == 2


def test_errors_of_components_point_at_the_layer() -> None:
    text = "input name=input dim=3\noutput-layer name=output dim=2 l2-regularize=a\n"
    with pytest.raises(ConfigError) as caught:
        Nnet.from_xconfig(text, source="net.xconfig")
    message = str(caught.value)
    assert message.startswith("net.xconfig:2:46: output-layer 'output' stands for a line that is wrong")
    assert "  component name=output.affine type=NaturalGradientAffineComponent input-dim=3" in message
    assert message.endswith("                                               ^")


def test_an_xconfig_without_output() -> None:
    with pytest.raises(ConfigError, match="the network has no output-node"):
        Nnet.from_xconfig("input name=input dim=3")


def test_load_knows_an_xconfig(tmp_path: Path) -> None:
    path = tmp_path / "net.xconfig"
    path.write_text(XCONFIG)
    loaded = load(path)
    assert isinstance(loaded, Nnet)
    assert loaded.nodes == Nnet.from_config_file(path).nodes
    assert loaded.node_dim("output") == 5
    path.write_text(XCONFIG.replace("output-layer", "outptu-layer"))
    with pytest.raises(ConfigError, match=r"net\.xconfig:\d+:\d+: .*outptu-layer"):
        load(path)


def test_an_xconfig_must_be_a_str() -> None:
    with pytest.raises(ArgumentError, match="an xconfig is a str"):
        Nnet.from_xconfig(3)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "relu-layer name=a\nno-op-component name=a.relu",
            "3:22: no-op-component 'a.relu': its component 'a.relu' is already",
        ),
        (
            "delta-layer name=a\ndelta-layer name=b input=input",
            "its node 'input_copy1' is already one of delta-layer 'a'",
        ),
    ],
)
def test_names_that_meet(lines: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        Nnet.from_xconfig(f"input name=input dim=3\n{lines}\noutput-layer name=output dim=2")
