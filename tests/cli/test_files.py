"""Files as Kaldi names them: standard input and output, commands, pipes; and flags as Kaldi reads them."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from nnet3 import Nnet, load, load_nnet
from tests.cli.run_command import CONFIG, Cli
from tests.shared_data import GOLDEN

MDL = GOLDEN / "mdl" / "1" / "final.mdl"


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """What is on standard input."""
    contents = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=contents))
    return contents


def _learning_rates(path: str) -> list[float]:
    return [component.learning_rate for component in load_nnet(path).components.values() if component.num_parameters]


@pytest.mark.parametrize("binary", ["true", "false"])
@pytest.mark.parametrize("verb", ["info", "show-computation"])
def test_a_model_from_standard_input(cli: Cli, stdin: io.BytesIO, verb: str, binary: str) -> None:
    cli.good("copy", f"--binary={binary}", "net.raw", "piped.raw")
    stdin.write(Path("piped.raw").read_bytes())
    stdin.seek(0)
    first_line = cli.good(verb, "net.raw").out.splitlines()[0]
    assert cli.good(verb, "-").out.splitlines()[0] == first_line


@pytest.mark.parametrize(("words", "binary"), [
    (["--binary", "False"], False), (["--binary", "FALSE"], False), (["--binary=False"], False),
    (["--binary", "True"], True), (["--binary"], True), (["--binary", "false", "--binary"], True),
])  # fmt: skip
def test_values_of_flags(cli: Cli, words: list[str], binary: bool) -> None:
    cli.good("copy", *words, "net.raw", "out.raw")
    assert Path("out.raw").read_bytes().startswith(b"\0B<Nnet3>") == binary


@pytest.mark.parametrize("name", ["text.gz", "cat text.gz |"])
@pytest.mark.parametrize(
    "words", [("arpa2fst", "{}", "out"), ("init", "{}", "out"), ("lattice-copy", "--include={}", "ark:lat", "ark:out")]
)
def test_a_small_packed_file_of_much_text(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], name: str
) -> None:
    """It is not unpacked further than a pipe is read."""
    monkeypatch.setattr("nnet3.base.kaldi_io.files.MOST_OF_STREAM", 1 << 16)
    Path("lat").touch()
    arguments = [word.format(name) for word in words]
    Path("text.gz").write_bytes(gzip.compress(b"#" * (1 << 16)))
    assert "unpack it first" not in cli(*arguments).err
    Path("text.gz").write_bytes(gzip.compress(b"#" * (1 << 22)))
    outcome = cli(*arguments)
    assert outcome.status == 1
    message = "this does not end within 65536 bytes: if it is to be longer, unpack it first"
    assert outcome.err == f"nnet3: {name}: {message}\n"


def test_edits_of_a_file_come_before_those_of_the_command_line(cli: Cli) -> None:
    Path("edits").write_text("rename-node old-name=affine new-name=first\n")
    cli.good("copy", "--edits=rename-node old-name=first new-name=second", "--edits-config=edits", "net.raw", "out.raw")
    assert "component-node name=second component=affine" in load("out.raw").info()


def test_each_config_has_numbers_of_its_own(cli: Cli) -> None:
    line = "component name={} type=AffineComponent input-dim=6 output-dim=4\n"
    for name in "abc":
        Path(name).write_text(CONFIG + line.format(name))
    cli.good("init", "--srand=5", "a", "b", "c", "out.raw")
    weights = [load_nnet("out.raw").components[name].parameters()["linear_params"] for name in "abc"]
    pairs = [(0, 1), (0, 2), (1, 2)]
    assert not any(torch.equal(weights[i], weights[j]) for i, j in pairs)


def test_priors_have_a_floor(cli: Cli) -> None:
    counts = [1e6] + 150 * [1.0] + [0.0]
    Path("counts.vec").write_text(f" [ {' '.join(map(str, counts))} ]\n")
    for options, least in (([], 1e-15), (["--prior-floor=0.001"], 0.001)):
        cli.good("am-adjust-priors", *options, MDL, "counts.vec", "out.mdl")
        priors = load("out.mdl").priors
        assert float(priors.min()) == pytest.approx(least)
        assert float(priors[0]) == pytest.approx(1e6 / 1000150)


def test_a_config_from_standard_input(cli: Cli, stdin: io.BytesIO) -> None:
    stdin.write(CONFIG.encode())
    stdin.seek(0)
    cli.good("init", "-", "out.raw")
    assert Path("out.raw").read_bytes() == Path("net.raw").read_bytes()


def test_commands_on_both_sides(cli: Cli) -> None:
    cli.good("copy", "cat net.raw |", "| cat > out.raw")
    assert Path("out.raw").read_bytes() == Path("net.raw").read_bytes()
    cli.good("init", "cat net.raw |", "echo 'output-node name=more input=affine' |", "more.raw")
    assert load_nnet("more.raw").output_names == ["output", "more"]


def test_to_standard_output_and_through_pipes(cli: Cli, tmp_path: Path) -> None:
    code = "import sys; from nnet3.cli import main; main(sys.argv[1:])"
    script = f"'{sys.executable}' -c '{code}' copy <(cat net.raw) - > out.raw"
    subprocess.run(["bash", "-c", script], check=True, cwd=tmp_path)
    assert Path("out.raw").read_bytes() == Path("net.raw").read_bytes()
    assert not Path("-").exists()


def test_acoustic_models_through_commands(cli: Cli) -> None:
    Path("counts").write_text(f" [ {'1 ' * 152}]\n")
    cli.good("am-copy", f"cat {MDL} |", "| cat > copy.mdl")
    assert Path("copy.mdl").read_bytes() == MDL.read_bytes()
    cli.good("am-adjust-priors", f"cat {MDL} |", "cat counts |", "adjusted.mdl")
    assert load("adjusted.mdl").priors.tolist() == pytest.approx([1 / 152] * 152)  # type: ignore[union-attr]
    cli.good("am-init", f"cat {MDL} |", "cat copy.mdl |", "new.mdl")
    assert load("new.mdl").transition_model.num_pdfs == 152  # type: ignore[union-attr]


@pytest.mark.parametrize("flag", [["--raw"], ["--raw=true"], ["--raw", "true"]])
def test_a_flag_alone_is_true(cli: Cli, flag: list[str]) -> None:
    cli.good("am-copy", *flag, MDL, "out")
    assert isinstance(load("out"), Nnet)
    cli.good("am-copy", *[word.replace("true", "false") for word in flag if flag != ["--raw"]], MDL, "out")
    assert not isinstance(load("out"), Nnet)


def test_kaldi_is_a_flag_like_others(cli: Cli) -> None:
    assert cli.good("info", "--kaldi=true", "net.raw").out == cli.good("info", "--kaldi", "net.raw").out
    assert cli.good("info", "--kaldi=false", "net.raw").out == cli.good("info", "net.raw").out


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_config_from_windows(cli: Cli, ending: str) -> None:
    Path("windows.config").write_bytes(b"\xef\xbb\xbf" + CONFIG.strip().replace("\n", ending).encode())
    cli.good("init", "windows.config", "out.raw")
    assert Path("out.raw").read_bytes() == Path("net.raw").read_bytes()


def test_learning_rates_come_before_edits(cli: Cli) -> None:
    edit = "--edits=set-learning-rate name=affine learning-rate=0.25"
    cli.good("copy", "--learning-rate=0.5", "--learning-rates=0.125", "net.raw", "out.raw")
    assert _learning_rates("out.raw") == [0.125]
    cli.good("copy", "--learning-rates=0.125", edit, "net.raw", "out.raw")
    assert _learning_rates("out.raw") == [0.25]


def test_a_table_onto_itself_and_to_nobody(cli: Cli, new_python: Path, tmp_path: Path) -> None:
    Path("feats.ark").write_text("utt1 [\n 1 2 3\n 4 5 6 ]\n")
    cli.good("compute", "net.raw", "ark:feats.ark", "ark,t:feats.ark")
    assert Path("feats.ark").read_text().startswith("utt1  [\n")
    Path("feats.ark").write_text("utt1 [\n" + " 1 2 3\n" * 20000 + "]\n")
    code = "import sys; from nnet3.cli import main; main(sys.argv[1:])"
    command = f"'{new_python}' -c '{code}' compute --frames-per-chunk=100 net.raw ark:feats.ark ark,t:- | head -n 1"
    script = f"set -o pipefail; {command}"
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (process.returncode, process.stdout, process.stderr) == (0, "utt1  [\n", "")
