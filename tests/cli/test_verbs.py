"""Good runs of every verb but compute and demo."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from nnet3 import AcousticModel, Nnet, load, load_nnet
from nnet3.cli.network_tables import print_network
from tests.cli.run_command import NORM_CONFIG, Cli
from tests.effort import EFFORT
from tests.shared_data import GOLDEN, needs_shared

MDL = GOLDEN / "mdl" / "1"


def _parameters(path: str) -> dict[str, torch.Tensor]:
    return dict(load_nnet(path).components["affine"].parameters())


def test_init_makes_the_network_of_the_config(cli: Cli) -> None:
    cli.good("init", "--srand=3", "net.config", "out.raw")
    expected = Nnet.from_config(Path("net.config").read_text(), seed=3)
    assert load_nnet("out.raw").info() == expected.info()
    cli.good("init", "--srand=4", "net.config", "other.raw")
    assert not torch.equal(_parameters("out.raw")["linear_params"], _parameters("other.raw")["linear_params"])


def test_init_in_text(cli: Cli) -> None:
    cli.good("init", "--binary=false", "net.config", "out.raw")
    assert Path("out.raw").read_bytes().startswith(b"<Nnet3>")
    assert load_nnet("out.raw").info() == load_nnet("net.raw").info()


def test_init_adds_a_config_to_a_network(cli: Cli) -> None:
    Path("more.config").write_text("output-node name=output2 input=affine\n")
    cli.good("init", "net.raw", "more.config", "out.raw")
    assert load_nnet("out.raw").output_names == ["output", "output2"]
    assert torch.equal(_parameters("out.raw")["linear_params"], _parameters("net.raw")["linear_params"])


def test_init_warns_of_orphans(cli: Cli) -> None:
    Path("more.config").write_text("component name=spare type=NoOpComponent dim=3\n")
    outcome = cli.good("init", "net.raw", "more.config", "out.raw")
    assert outcome.err.startswith("nnet3: warning: ")
    assert "spare" in outcome.err


def test_info_of_a_config_and_of_its_network(cli: Cli) -> None:
    outcome = cli.good("info", "net.config")
    assert outcome.out.splitlines()[:6] == [
        "nodes: 6",
        "components: 2",
        "left-context: 1",
        "right-context: 0",
        "num-parameters: 28",
        "modulus: 1",
    ]
    assert "Append(Offset(input, -1), input)" in outcome.out
    assert cli.good("info", "net.raw").out == outcome.out


def test_info_shows_what_makes_the_network(cli: Cli) -> None:
    Path("conv.config").write_text(
        "input-node name=input dim=12\n"
        "component name=shared type=TdnnComponent input-dim=12 output-dim=12 time-offsets=-3,0,3\n"
        "component name=cnn type=TimeHeightConvolutionComponent num-filters-in=3 num-filters-out=2 height-in=4 "
        "height-out=2 height-subsample-out=2 time-offsets=-1,0,1 height-offsets=-1,0,1 required-time-offsets=0\n"
        "component name=stats type=StatisticsExtractionComponent input-dim=4 input-period=1 output-period=10\n"
        "component name=pool type=StatisticsPoolingComponent input-dim=9 input-period=10 left-context=50 "
        "right-context=50 num-log-count-features=1\n"
        "component-node name=tdnn component=shared input=input\ncomponent-node name=cnn component=cnn input=tdnn\n"
        "component-node name=stats component=stats input=cnn\ncomponent-node name=pool component=pool input=stats\n"
        "output-node name=output input=Round(pool, 10) objective=quadratic\n"
    )
    outcome = cli.good("info", "conv.config")
    lines = {line.split()[0]: line for line in outcome.out.splitlines() if line and "  " in line}
    assert lines["shared"].endswith("t-3, t, t+3")
    assert "t-1, t, t+1 (must have t); heights -1,0,1, stride 2; 3 -> 2 filters, height 4 -> 2" in outcome.out
    assert "mean and variance over 10 frames, one each 1" in lines["stats"]
    assert "window t-50 .. t+50 every 10; 1 log-count" in lines["pool"]
    assert lines["output"].split("  ")[1].strip() == "output, quadratic"
    tdnn = lines["tdnn"].split()
    assert tdnn == ["tdnn", "component", "12", "shared", "input"]
    assert not any(line.endswith(" ") for line in outcome.out.splitlines())


def test_info_shows_nans(cli: Cli) -> None:
    nnet = load_nnet("net.raw")
    nnet.components["affine"].parameters()["bias_params"][0] = float("nan")
    nnet.save("bad.raw")
    outcome = cli.good("info", "bad.raw")
    assert "1 NaN OR INFINITE" in outcome.out
    assert "warning: component 'affine' has 1 number that" in outcome.err


def test_info_of_a_network_that_can_compute_nothing(cli: Cli) -> None:
    Path("stuck.config").write_text(
        "input-node name=input dim=3\ncomponent name=a type=NoOpComponent dim=3\n"
        "component-node name=a component=a input=Sum(input, Offset(a, -1))\noutput-node name=output input=a\n"
    )
    outcome = cli.good("info", "stuck.config")
    assert "stuck.config:3:59: the recurrence through 'a' has no way to start" in outcome.err
    assert "left-context" not in outcome.out


def test_info_of_thousands_of_nodes(cli: Cli) -> None:
    count = 2_000 if EFFORT == 1 else 20_000
    lines = ["input-node name=input dim=1", "component name=k type=NoOpComponent dim=1"]
    lines += [f"component-node name=n{k} component=k input={f'n{k - 1}' if k else 'input'}" for k in range(count)]
    Path("large.config").write_text("\n".join([*lines, f"output-node name=output input=n{count - 1}"]))
    outcome = cli.good("info", "large.config")
    assert f"nodes: {2 * count + 2}" in outcome.out


def test_info_as_kaldi_prints_it(cli: Cli) -> None:
    assert cli.good("info", "--kaldi", "net.raw").out == load_nnet("net.raw").info()


@needs_shared
@pytest.mark.parametrize("case", ["001", "010"])
def test_info_agrees_with_kaldi(cli: Cli, case: str) -> None:
    folder = GOLDEN / "random" / case
    printed = cli.good("info", "--kaldi", folder / "model.raw").out.splitlines()
    expected = [line for line in (folder / "info.txt").read_text().splitlines() if line]
    assert [line.split(",")[0] for line in printed] == [line.split(",")[0] for line in expected]


def test_copy_changes_nothing_unless_asked(cli: Cli) -> None:
    cli.good("copy", "net.raw", "out.raw")
    assert Path("out.raw").read_bytes() == Path("net.raw").read_bytes()
    cli.good("copy", "--binary=false", "net.raw", "text.raw")
    cli.good("copy", "text.raw", "back.raw")
    assert Path("back.raw").read_bytes() == Path("net.raw").read_bytes()


def test_copy_onto_itself(cli: Cli) -> None:
    before = Path("net.raw").read_bytes()
    cli.good("copy", "net.raw", "net.raw")
    assert Path("net.raw").read_bytes() == before


def test_copy_with_changes(cli: Cli) -> None:
    edits = "rename-node old-name=affine new-name=first; set-learning-rate name=aff* learning-rate=0.25"
    cli.good("copy", f"--edits={edits}", "--scale=0.5", "net.raw", "out.raw")
    changed = load_nnet("out.raw")
    assert "first" in changed.node_number
    assert getattr(changed.components["affine"], "learning_rate") == 0.25  # noqa: B009
    torch.testing.assert_close(_parameters("out.raw")["linear_params"], 0.5 * _parameters("net.raw")["linear_params"])
    cli.good("copy", "--learning-rates=0.125", "net.raw", "out.raw")
    assert getattr(load_nnet("out.raw").components["affine"], "learning_rate") == 0.125  # noqa: B009


def test_copy_for_test_removes_the_batch_norm(cli: Cli) -> None:
    nnet = Nnet.from_config(NORM_CONFIG)
    norm = nnet.components["norm"]
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    y, memo = norm.propagate(x)
    norm.store_stats(x, y, memo)
    nnet.save("net.raw")
    cli.good("copy", "--prepare-for-test=true", "net.raw", "out.raw")
    assert any("BatchNorm" in c.type_name for c in load_nnet("net.raw").components.values())
    assert not any("BatchNorm" in c.type_name for c in load_nnet("out.raw").components.values())


@pytest.mark.parametrize("mode", ["true", "false"])
def test_copy_puts_batch_norm_in_test_mode(cli: Cli, mode: str) -> None:
    Nnet.from_config(NORM_CONFIG).save("net.raw")
    cli.good("copy", f"--batchnorm-test-mode={mode}", "net.raw", "out.raw")
    assert load_nnet("out.raw").components["norm"].test_mode == (mode == "true")


def test_averages_are_weighted(cli: Cli) -> None:
    cli.good("init", "--srand=1", "net.config", "other.raw")
    cli.good("average", "--weights=0.25:0.75", "net.raw", "other.raw", "out.raw")
    expected = 0.25 * _parameters("net.raw")["linear_params"] + 0.75 * _parameters("other.raw")["linear_params"]
    torch.testing.assert_close(_parameters("out.raw")["linear_params"], expected)
    outcome = cli.good("average", "--weights=1:3", "net.raw", "other.raw", "same.raw")
    assert outcome.err == "nnet3: warning: the weights of the networks sum to 4: they are divided by that\n"
    torch.testing.assert_close(_parameters("same.raw")["linear_params"], expected)


def test_am_info_says_the_same_of_text_and_binary(cli: Cli) -> None:
    outcome = cli.good("am-info", MDL / "final.mdl")
    assert "152 pdfs" in outcome.out
    assert "981 transition-ids" in outcome.out
    assert cli.good("am-info", MDL / "final.txt.mdl").out == outcome.out
    kaldi = cli.good("am-info", "--kaldi", MDL / "final.mdl").out
    assert "num-pdfs: 152\n" in kaldi
    assert "prior-dimension: 152\n" in kaldi


def test_am_copy_rewrites_what_kaldi_wrote(cli: Cli) -> None:
    cli.good("am-copy", MDL / "final.txt.mdl", "out.mdl")
    cli.good("am-copy", MDL / "final.mdl", "same.mdl")
    assert Path("same.mdl").read_bytes() == (MDL / "final.mdl").read_bytes()
    cli.good("am-copy", "--raw=true", MDL / "final.mdl", "out.raw")
    assert load_nnet("out.raw").info() == load_nnet(MDL / "final.mdl").info()


def test_an_acoustic_model_taken_apart_and_joined_again(cli: Cli) -> None:
    cli.good("am-copy", "--raw=true", MDL / "final.mdl", "net.raw")
    assert cli.good("am-init", MDL / "final.mdl", "net.raw", "out.mdl").err == ""
    joined = load("out.mdl")
    assert isinstance(joined, AcousticModel)
    assert len(joined.priors) == 0
    Path("counts.vec").write_text(f" [ {' '.join(str(k + 1) for k in range(152))} ]\n")
    cli.good("am-adjust-priors", "out.mdl", "counts.vec", "adjusted.mdl")
    adjusted = load("adjusted.mdl")
    assert isinstance(adjusted, AcousticModel)
    np.testing.assert_allclose(adjusted.priors, np.arange(1, 153) / (152 * 153 / 2), rtol=1e-6)
    assert "largest change: pdf 8, " in cli.good("am-adjust-priors", MDL / "final.mdl", "counts.vec", "out.mdl").err


def test_convert(cli: Cli) -> None:
    inputs = Path(__file__).parents[2] / "tools/command_lines/inputs"
    assert cli.good("convert", inputs / "pnorm.nnet2", "pnorm.raw").err == ""
    assert [*load_nnet("pnorm.raw").components] == ["fixed-affine1", "nonlin1"]
    transform = f"--feature-transform={inputs / 'softmax.nnet1'}"
    outcome = cli("convert", transform, inputs / "softmax.nnet1", "out.raw")
    assert outcome.status == 1
    assert "component 4, SpliceComponent, takes 3 columns, but gets 2" in outcome.err
    assert not Path("out.raw").exists()
    cli.good("convert", "--binary=false", "--log-softmax=false", inputs / "softmax.nnet1", "out.raw")
    assert "type=SoftmaxComponent" in load_nnet("out.raw").info()
    assert "of which `nnet3 convert` makes one of nnet3" in cli("copy", inputs / "pnorm.nnet2", "out").err


def test_am_init_warns_of_a_network_for_another_tree(cli: Cli) -> None:
    outcome = cli.good("am-init", MDL / "final.mdl", "net.raw", "out.mdl")
    assert (
        outcome.err == "nnet3: warning: the network's output has dimension 4, but the transition model has 152 pdfs\n"
    )


def test_am_copy_warns_of_a_network_for_another_tree(cli: Cli) -> None:
    outcome = cli.good("am-copy", "--set-raw-nnet=net.raw", MDL / "final.mdl", "out.mdl")
    assert "warning: the network's output has dimension 4, but the transition model has 152 pdfs\n" in outcome.err
    assert "pdfs" not in cli.good("am-copy", MDL / "final.mdl", "same.mdl").err


def test_show_computation_prints_request_steps_and_commands(cli: Cli) -> None:
    outcome = cli.good("show-computation", "--output=output=0:1", "--backward=true", "--show-steps=true", "net.config")
    lines = outcome.out.splitlines()
    assert lines[:2] == ["request: input input [ (0, -1:1) ]", "request: output output [ (0, 0:1) ] with derivative"]
    assert "step 0: affine_input [ (0, 0:1) ] gathered" in lines
    assert any("affine.Propagate(" in line for line in lines)
    assert any("affine.Backprop(" in line for line in lines)
    headings = [line for line in lines if line.startswith(("# forward: ", "# backward: "))]
    assert "# forward: affine_input = Append(Offset(input, -1), input)" in headings
    assert "# forward: affine = AffineComponent affine, 6 -> 4" in headings
    assert "# backward: derivative of affine = AffineComponent affine, 6 -> 4" in headings


def test_show_computation_in_full(cli: Cli) -> None:
    """Ranges of indexes are not cut short, and every matrix is used."""
    request = ["--input=input=-1:90", "--output=output=0:90:5", "--num-sequences=2"]
    outcome = cli.good("show-computation", "--graph", "--schedule", *request, "net.raw")
    assert "..." not in outcome.out.partition("commands: ")[0]
    lines = outcome.out.splitlines()
    assert any(line.startswith("step 0: affine_input [ (0:1, 0) ") and "(0:1, 90)" in line for line in lines)
    assert any("affine_input [ (0, 0) " in line and " uses input" in line for line in lines)
    matrices = {line.partition("(")[0] for line in lines if re.match(r"m\d+\(", line)}
    commands = "\n".join(line for line in lines if re.match(r"c\d+: ", line))
    assert all(re.search(rf"\b{matrix}\b", commands) for matrix in matrices)


@pytest.mark.parametrize("backward", ["true", "false"])
def test_show_computation_with_times(cli: Cli, backward: str) -> None:
    outcome = cli.good("show-computation", "--profile", f"--backward={backward}", "--output=output=0:3", "net.raw")
    times = re.findall(r"^ +(\d+\.\d) us  c\d+: ", outcome.out, re.MULTILINE)
    assert len(times) >= 4
    assert re.search(r"^# \d+\.\d{3} ms in all$", outcome.out, re.MULTILINE)


def test_show_computation_cut_short_and_not_optimized(cli: Cli) -> None:
    request = ["--input=input=-1:1", "--output=output=0:1:1", "--num-sequences=2"]
    outcome = cli.good("show-computation", *request, "--optimize=false", "--max-commands=3", "net.raw")
    assert outcome.out.splitlines()[-1].endswith("more commands")
    assert "optimized:" not in outcome.out


def test_names_stay_whole_on_a_wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "prefinal-chain.batchnorm"
    config = (
        "input-node name=input dim=3\n"
        f"component name={name} type=NaturalGradientAffineComponent input-dim=3 output-dim=3 max-change=0.75 "
        "l2-regularize=0.08 orthonormal-constraint=-1\n"
        f"component-node name={name} component={name} input=input\noutput-node name=output input={name}\n"
    )
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    print_network(Nnet.from_config(config), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count(name) == 3
    assert "NaturalGradientAffine " in text
    assert max(map(len, text.splitlines())) <= 100


@needs_shared
def test_am_init_with_tree_and_topology(cli: Cli) -> None:
    folder = GOLDEN / "chain" / "mono"
    cli.good("am-init", folder / "0.trans_mdl", folder / "start.raw", "expected.mdl")
    assert cli.good("am-init", folder / "tree", folder / "topo", folder / "start.raw", "out.mdl").err == ""
    assert Path("out.mdl").read_bytes() == Path("expected.mdl").read_bytes()
    assert cli("am-init", folder / "topo", folder / "start.raw").status == 2
    assert "ContextDependency" in cli("am-init", folder / "topo", folder / "tree", "net.raw", "out.mdl").err


SEEDED = ["init --srand={} net.config out.raw", "copy --srand={} net.raw out.raw"]


@pytest.mark.parametrize("command", SEEDED)
@pytest.mark.parametrize("seed", [2**63 - 1, -(2**63), 2**32])
def test_the_largest_seeds(cli: Cli, command: str, seed: int) -> None:
    cli.good(*command.format(seed).split())
    assert load_nnet("out.raw").num_parameters == load_nnet("net.raw").num_parameters
