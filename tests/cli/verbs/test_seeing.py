from __future__ import annotations

from pathlib import Path

from tests.cli.run_command import CONFIG, Cli

XCONFIG = "input name=input dim=3\nrelu-layer name=t1 input=Append(-1, 0, 2) dim=4\noutput-layer name=output dim=2\n"


def test_layers_of_a_network(cli: Cli) -> None:
    Path("network.xconfig").write_text(XCONFIG)
    cli.good("init", "network.xconfig", "0.raw")
    outcome = cli.good("describe", "0.raw")
    assert outcome.out == f"# 0.raw: 3 layers\n{XCONFIG}"
    Path("again.xconfig").write_text(outcome.out)
    cli.good("init", "again.xconfig", "1.raw")
    assert cli.good("describe", "1.raw").out == f"# 1.raw: 3 layers\n{XCONFIG}"


def test_what_is_no_layer(cli: Cli) -> None:
    Path("network.config").write_text(CONFIG.replace("AffineComponent", "BlockAffineComponent num-blocks=2"))
    outcome = cli.good("describe", "network.config")
    assert outcome.out.splitlines()[:2] == [
        "# network.config: 2 layers",
        "# Not all of it is layers: this goes on top of the network, whose nodes inputs may name.",
    ]
    assert "\n# not recognised: component name=affine type=BlockAffineComponent input-dim=6 output-dim=4" in outcome.out
    assert "\noutput name=output input=softmax\n" in outcome.out


def test_mistakes_in_the_config_are_shown_where_they_are(cli: Cli) -> None:
    Path("network.config").write_text("relu-layer nam=x\n")
    outcome = cli("describe", "network.config")
    assert outcome.status == 1
    assert "network.config:1" in outcome.err
