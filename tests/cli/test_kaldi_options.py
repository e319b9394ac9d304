"""Command lines as hands that know Kaldi type them: global options, spellings, config files, suggestions."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path

import pytest

from nnet3 import load_nnet
from nnet3.cli.kaldi_arguments import ELSEWHERE, INTERNALS, explain_unknown
from nnet3.cli.verb import find_verb, options_of_verbs
from nnet3.cli.verb_table import VERBS
from tests.cli.run_command import Cli
from tests.shared_data import GOLDEN


def _rate(path: str) -> float:
    return getattr(load_nnet(path).components["affine"], "learning_rate")  # type: ignore[no-any-return]  # noqa: B009


@pytest.mark.parametrize("value", ["false", "False", "FALSE", "No"])
@pytest.mark.parametrize("between", ["=", " "])
def test_a_flag_and_its_value_however_they_are_written(cli: Cli, value: str, between: str) -> None:
    Path("net.config").write_text("input-node name=input dim=3\noutput-node name=output input=input\n")
    cli.good("init", *f"--binary{between}{value}".split(), "net.config", "0.raw")
    assert Path("0.raw").read_bytes().startswith(b"<Nnet3>")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_the_global_options(cli: Cli, verb: str) -> None:
    Path("empty.conf").write_text("# no options\n")
    options = ["--config=empty.conf", "--verbose=0", "--print-args=false", "--use-gpu=no", "--debug-computation=false"]
    outcome = cli(verb, *options, "--no-such-option")
    assert outcome.status == 2
    assert "No such option '--no-such-option'" in outcome.err
    assert "--use-gpu [yes|no|wait|optional]" in " ".join(cli.good(verb, "--help").out.split())


def test_a_config_file_and_a_command_line_that_overrides_it(cli: Cli) -> None:
    Path("copy.conf").write_text("--learning_rate=0.5  # as in the recipe\n\n--binary=false\n")
    cli.good("copy", "--config=copy.conf", "net.raw", "out.raw")
    assert _rate("out.raw") == 0.5
    assert Path("out.raw").read_bytes().startswith(b"<Nnet3>")
    for order in (["--learning-rate=0.25", "--config=copy.conf"], ["--config", "copy.conf", "--learning-rate=0.25"]):
        cli.good("copy", *order, "net.raw", "out.raw")
        assert _rate("out.raw") == 0.25


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scale=2\n", "bad.conf:1: expected an option such as --scale=0.5, got 'scale=2'; did you mean '--scale=2'?"),
        ("\n2\n", "bad.conf:2: expected an option such as --scale=0.5, got '2'\n"),
        ("--scael=2\n", "No such option '--scael'; did you mean '--scale'?"),
        ("--scale=x\n", "it must be a number, got 'x'"),
    ],
)
def test_a_bad_config_file(cli: Cli, text: str, message: str) -> None:
    Path("bad.conf").write_text(text)
    outcome = cli("copy", "--config=bad.conf", "net.raw", "out.raw")
    assert outcome.status in (1, 2)
    assert message in outcome.err
    assert "nofile: No such file" in cli("copy", "--config=nofile", "net.raw", "out.raw").err


def test_underscores_and_capitals(cli: Cli) -> None:
    cli.good("copy", "--Learning_Rate=0.125", "net.raw", "out.raw")
    assert _rate("out.raw") == 0.125


def test_empty_values_are_as_if_not_given(cli: Cli) -> None:
    Path("edits").write_text("frobnicate\n")
    Path("copy.conf").write_text("--edits-config=edits\n")
    options = ["--config=copy.conf", "--config=", "--edits-config=", "--edits=", "--nnet-config=", "--learning-rates="]
    cli.good("copy", *options, "net.raw", "out.raw")
    assert Path("out.raw").read_bytes() == Path("net.raw").read_bytes()


def test_print_args_shows_the_command_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["nnet3", "copy", "--edits=a b"])
    assert cli.good("copy", "--print-args", "net.raw", "out.raw").err == "nnet3: nnet3 copy '--edits=a b'\n"
    assert cli.good("copy", "--print-args=false", "net.raw", "out.raw").err == ""


def test_what_steers_kaldis_internals_is_accepted_and_said_to_be_ignored(cli: Cli) -> None:
    options = ["--optimization.snip_row_ops=false", "--compiler.cache-capacity=8", "--use-gpu=wait"]
    assert cli.good("copy", *options, "net.raw", "out.raw").err == ""
    lines = cli.good("copy", "--verbose=1", *options, "net.raw", "out.raw").err.splitlines()
    assert len(lines) == 3
    assert (
        "nnet3: debug: ignored: --optimization.snip-row-ops=false, which steers what works in another way" in lines[0]
    )
    assert "--use-gpu=wait" in lines[2]
    assert not logging.getLogger("nnet3").isEnabledFor(logging.DEBUG)
    for option, message in (
        ("--optimization.snip-row-ops=maybe", "it takes true or false, got 'maybe'"),
        ("--compiler.cache-capacity=x", "it takes an integer, got 'x'"),
        ("--optimization.snip-row-op=true", "did you mean '--optimization.snip-row-ops'?"),
        ("--use-gpu=perhaps", "'perhaps' is not one of 'yes', 'no', 'wait', 'optional'"),
    ):
        outcome = cli("copy", option, "net.raw", "out.raw")
        assert outcome.status == 2
        assert message in outcome.err


def test_no_option_of_another_meaning_is_proposed(cli: Cli) -> None:
    of_verbs = options_of_verbs()
    for verb in map(find_verb, VERBS):
        for name in ELSEWHERE | of_verbs:
            assert "did you mean" not in explain_unknown(f"--{name}=no-such-value", verb, of_verbs), (verb.name, name)
    assert not ELSEWHERE & {*of_verbs, *INTERNALS}
    refused = cli("info", f"--{min(ELSEWHERE)}=x", "net.raw")
    assert "Kaldi has it, but it is for other programs, or not supported here yet" in refused.err


def test_learning_rates_are_printed_as_copy_takes_them(cli: Cli) -> None:
    cli.good("copy", "--learning-rates=0.125", "net.raw", "out.raw")
    assert cli.good("info", "--print-learning-rates=true", "out.raw").out == "0.125\n"


def test_learning_rates_of_an_acoustic_model(cli: Cli) -> None:
    rates = cli.good("am-info", "--print-learning-rates", GOLDEN / "mdl" / "1" / "final.mdl").out.strip()
    assert cli.good("am-copy", f"--learning-rates={rates}", GOLDEN / "mdl" / "1" / "final.mdl", "out.mdl").err == ""
    assert all(float(rate) >= 0 for rate in rates.split(":"))


def test_info_has_the_lines_that_scripts_look_for(cli: Cli) -> None:
    lines = cli.good("info", "net.raw").out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith(("left-context:", "num-parameters:"))] == ["1", "28"]


@pytest.mark.parametrize("verb", ["init", "info", "show-computation"])
def test_an_xconfig_may_stand_for_a_config(cli: Cli, verb: str) -> None:
    Path("network.xconfig").write_text("input dim=40 name=input\noutput-layer name=output dim=6\n")
    said = cli.good(verb, "network.xconfig", *(["out.raw"] if verb == "init" else [])).out
    assert "output.affine" in (said if verb != "init" else cli.good("info", "out.raw").out)


def test_a_mistake_in_an_xconfig_is_shown_in_it(cli: Cli) -> None:
    Path("network.xconfig").write_text("input dim=40 name=input\nrelu-layer name=a dim=6 bottleneck-dim=7\n")
    outcome = cli("init", "network.xconfig", "out.raw")
    assert outcome.status == 1
    assert "network.xconfig:2:40: relu-layer 'a': 'bottleneck-dim' must be < dim (6), got 7\n" in outcome.err


@pytest.mark.parametrize(
    ("verb", "option", "nothing"),
    [
        *((f"chain-{name}", "--lwf-scale=0.5", "--lwf-scale=0") for name in ("train", "train2", "compute-prob")),
        *((f"chain-{name}", "--lwf-scale=0.5", "--lwf-scale=0") for name in ("combine", "combine2")),
        ("compute-mfcc-feats", "--vtln-warp=1.1", "--vtln-warp=1.0"),
        ("compute-fbank-feats", "--vtln-map=ark:map", "--vtln-map="),
        ("compute-fbank-feats", "--utt2spk=ark:utt2spk", "--utt2spk="),
    ],
)
def test_options_that_only_what_changes_nothing_may_have(cli: Cli, verb: str, option: str, nothing: str) -> None:
    files = ["a", "b", "c", "d"][: 2 if verb.startswith("compute") else 3 if verb.endswith("prob") else 4]
    outcome = cli(verb, option, *files)
    assert (outcome.status, f"{option}: " in outcome.err) == (2, True)
    assert cli(verb, nothing, *files).status == 1  # it goes on to the files


def test_options_that_kaldi_ignores_too(cli: Cli) -> None:
    Path("phones").write_text("a 1 2 3\n")
    if find_spec("kaldifst"):
        cli.good("chain-est-phone-lm", "--binary=false", "ark:phones", "lm.fst")
    assert cli("merge-egs", "--multilingual-eg=true", "ark:nothing", "ark:-").status == 1
