from __future__ import annotations

from pathlib import Path

from nnet3 import load
from tests.cli.run_command import Cli

XCONFIG = "input name=input dim=3\nrelu-layer name=t1 dim=4 input=Append(-1,0,2)\noutput-layer name=output dim=2\n"


def test_a_folder_of_configs(cli: Cli) -> None:
    Path("network.xconfig").write_text(XCONFIG)
    outcome = cli.good("xconfig-to-configs", "--xconfig-file", "network.xconfig", "--config-dir", "exp/configs")
    assert outcome.out == "left-context: 1\nright-context: 2\n"
    folder = Path("exp/configs")
    assert (folder / "vars").read_text() == "model_left_context=1\nmodel_right_context=2\n"
    command = "# nnet3 xconfig-to-configs --xconfig-file=network.xconfig --config-dir=exp/configs\n"
    assert command in (folder / "final.config").read_text()
    cli.good("init", folder / "final.config", "0.raw")
    cli.good("init", "network.xconfig", "1.raw")
    assert load("0.raw").info() == load("1.raw").info()


def test_layers_on_top_of_a_model(cli: Cli) -> None:
    Path("network.xconfig").write_text(XCONFIG)
    cli.good("init", "network.xconfig", "0.raw")
    Path("more.xconfig").write_text("output-layer name=output-1 dim=3 input=t1.relu@5")
    edits = "remove-output-nodes name=output;rename-node old-name=output-1 new-name=output"
    arguments = ["--existing-model=0.raw", "--config-dir=configs", f"--nnet-edits={edits}"]
    outcome = cli.good("xconfig-to-configs", "--xconfig-file=more.xconfig", *arguments)
    assert outcome.out == "left-context: 0\nright-context: 7\n"


def test_the_final_config_alone(cli: Cli) -> None:
    Path("network.xconfig").write_text(XCONFIG)
    cli.good("xconfig-to-configs", "--xconfig-file=network.xconfig", "--config-file-out=final.config")
    cli.good("info", "final.config")
    assert not Path("configs").exists()


def test_mistakes_leave_no_folder(cli: Cli) -> None:
    Path("network.xconfig").write_text(XCONFIG.replace("relu", "rely"))
    outcome = cli("xconfig-to-configs", "--xconfig-file=network.xconfig", "--config-dir=configs")
    assert outcome.status == 1
    assert outcome.err.startswith("nnet3: network.xconfig:2:1: unknown layer type 'rely-layer'\n")
    assert not Path("configs").exists()
    assert cli("xconfig-to-configs", "--xconfig-file=network.xconfig").status == 2
