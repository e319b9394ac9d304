"""A user's mistakes: status 1, one message that says what is wrong, nothing left behind."""

from __future__ import annotations

import io
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nnet3 import Nnet
from nnet3.kaldi_io import matrix_writer
from tests.cli.run_command import IVECTOR_CONFIG, Cli
from tests.shared_data import GOLDEN

MDL = GOLDEN / "mdl" / "1" / "final.mdl"


@pytest.fixture
def files(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Files that are wrong in one way or another."""
    Path("unknown.config").write_text("input-node name=input dim=3\noutput-node name=output input=inptu\n")
    Path("empty").write_bytes(b"")
    zero = "component name=a type=FixedAffineComponent matrix=/dev/zero"
    Path("zero.config").write_text(f"input-node name=input dim=3\n{zero}\noutput-node name=output input=input\n")
    huge = "component name=a type=AffineComponent input-dim=2000000000 output-dim=2000000000"
    Path("huge.config").write_text(f"input-node name=input dim=3\n{huge}\noutput-node name=output input=input\n")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO()))
    Path("comment.config").write_text("# nothing\n")
    Path("latin1.config").write_bytes(b"input-node name=\xe9 dim=3\n")
    Path("escape.config").write_bytes(b"input-node name=\x1b[31m dim=3\n")
    Path("cut.raw").write_bytes(Path("net.raw").read_bytes()[:400])
    Path("noise.raw").write_bytes(b"\0B" + bytes(range(200)))
    Path("edits").write_text("remove-orphans\nfrobnicate name=x\n")
    Path("short.vec").write_text(" [ 1 2 3 ]\n")
    Path("folder").mkdir()
    Nnet.from_config(IVECTOR_CONFIG).save("ivector.raw")
    with matrix_writer("ark:feats.ark") as writer:
        writer.write("utt1", np.ones((5, 3), np.float32))
    with matrix_writer("ark:wide.ark") as writer:
        writer.write("utt1", np.ones((5, 4), np.float32))
    Path("cut.ark").write_bytes(Path("feats.ark").read_bytes()[:40])
    Path("lattices").write_text("utt1\n0 1 2 0.5,1.5,3_4\n1 0.25,0,\n\n")
    return cli


PERIOD = ["--online-ivector-period=10"]
MISTAKES = [
    (["info", "nofile"], "nofile: No such file or directory"),
    (["info", "folder"], "folder: Is a directory"),
    (["info", "empty"], "empty: the config defines no nodes"),
    (["info", "comment.config"], "comment.config: the config defines no nodes"),
    (["info", "latin1.config"], "latin1.config:1:17: not a text file"),
    (["info", "escape.config"], "escape.config:1:17: "),
    (["info", "cut.raw"], "the file is cut off"),
    (["info", "noise.raw"], "noise.raw: byte 2"),
    (["info", "/dev/zero"], "/dev/zero: this is a device, not a file"),
    (["info", "zero.config"], "/dev/zero: this is a device, not a file"),
    (["info", "cat /dev/zero |"], "begins with a zero byte, but not with the header 00 42"),
    (["am-info", "/dev/zero"], "/dev/zero: this is a device, not a file"),
    (["info", "/dev/null"], "the config defines no nodes"),
    (["compute", "net.raw", "ark:/dev/zero", "ark:out"], "/dev/zero: this is a device, not a file"),
    (["am-info", "empty"], "empty: this file is empty"),
    (["am-info", "net.raw"], "net.raw: this is a raw network; an acoustic model (.mdl) is needed here"),
    (["am-copy", "net.raw", "out"], "net.raw: this is a raw network; an acoustic model (.mdl) is needed here"),
    (["am-init", "net.raw", "net.raw", "out"], "has no transition model: give a .mdl file"),
    (["init", "huge.config", "out"], "huge.config:2:1: component 'a': a component of this size does not fit"),
    (["info", "-"], "<stdin>: the config defines no nodes"),
    (["copy", "exit 3 |", "out"], "the command failed with status 3"),
    (["copy", "net.raw", "| cat > /dev/null; exit 3"], "the command failed with status 3"),
    (["init", "nofile", "out"], "nofile: No such file or directory"),
    (["init", "net.raw", "out"], "net.raw: this is a model file"),
    (["init", "empty", "out"], "empty: the config defines no nodes"),
    (["init", "net.config", "nofolder/out"], "nofolder/out: cannot write this file: No such file or directory"),
    (["init", "net.config", "folder"], "folder: cannot write this file: Is a directory"),
    (["copy", "cut.raw", "out"], "the file is cut off"),
    (["copy", "--nnet-config=nofile", "net.raw", "out"], "nofile: No such file or directory"),
    (["copy", "--nnet-config=unknown.config", "net.raw", "out"], "did you mean 'input'?"),
    (["copy", "--edits-config=edits", "net.raw", "out"], "edits:2:1: "),
    (["copy", "--edits=frobnicate name=x", "net.raw", "out"], "--edits:1:1: "),
    (["copy", "--edits=rename-node old-name=nobody new-name=a", "net.raw", "out"], "nobody"),
    (["copy", "--learning-rates=1:2", "net.raw", "out"], "2 learning rates for 1 updatable components: affine"),
    (["average", "net.raw", "ivector.raw", "out"], "has not: they cannot be averaged"),
    (["average", "net.raw", "net.raw", "ivector.raw", "out"], "net.raw has component 'softmax', but ivector.raw has"),
    (["average", "--weights=0", "net.raw", "out"], "are divided by their sum, which must be finite and not 0, got 0"),
    (["compute", "net.raw", "feats.ark", "ark:out"], "'feats.ark' is not an rspecifier such as ark:"),
    (["compute", "net.raw", "ark:feats.ark", "out"], "'out' is not a wspecifier such as ark:"),
    (["compute", "net.raw", "ark:nofile", "ark:out"], "cannot read nofile"),
    (["compute", "net.raw", "ark:cut.ark", "ark:out"], "the file is cut off or damaged"),
    (["compute", "net.raw", "ark:feats.ark", "ark:nofolder/out"], "cannot write nofolder/out"),
    (["compute", "net.raw", "ark:wide.ark", "ark:out"], "the features must be (frames, 3), got (5, 4)"),
    (["compute", "net.raw", "ark:empty", "ark:out"], "ark:empty: no utterances"),
    (["compute", "ivector.raw", "ark:feats.ark", "ark:out"], "has an input 'ivector', but none is given"),
    (["compute", "--ivectors=ark:nofile", "ivector.raw", "ark:feats.ark", "ark:out"], "cannot read nofile"),
    (
        [
            "compute",
            "--online-ivectors=ark:empty",
            "--online-ivector-period=10",
            "ivector.raw",
            "ark:feats.ark",
            "ark:out",
        ],
        "no ivector for it",
    ),
    (
        [
            "compute",
            "--online-ivectors=ark:wide.ark",
            "--online-ivector-period=10",
            "ivector.raw",
            "ark:feats.ark",
            "ark:out",
        ],
        "the ivectors must be (rows, 2), got (5, 4)",
    ),
    (["compute", "--device=cuda:77", "net.raw", "ark:feats.ark", "ark:out"], "--device=cuda:77: PyTorch finds"),
    (["compute", "--device=gpu", "net.raw", "ark:feats.ark", "ark:out"], "--device=gpu is not a device such as cpu"),
    (["compute", "--resume", "net.raw", "ark:feats.ark", "ark:out"], "only an archive with a script can be resumed"),
    (["compute", "--use-priors=true", "net.raw", "ark:feats.ark", "ark:out"], "--use-priors needs an acoustic model"),
    (["show-computation", "unknown.config"], "unknown.config:2:31: unknown node 'inptu'"),
    (["show-computation", "--output=out=0", "net.raw"], "no output 'out'; did you mean 'output'?"),
    (["show-computation", "--input=input=0:9", "net.raw"], "output (0) needs input t=-1..0; given 0..9"),
    (["show-computation", "--disable-pass=move_sizng", "net.raw"], "did you mean 'move_sizing'?"),
    (["demo", "--speech=nofile", "--folder=out"], "nofile: no such file"),
    (["demo", "--speech=net.config", "--folder=out"], "net.config: not a ZIP of WAV files"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[" ".join(arguments) for arguments, _ in MISTAKES])
def test_one_message_and_nothing_left_behind(files: Cli, arguments: list[str], message: str) -> None:
    before = sorted(Path().rglob("*"))
    outcome = files(*arguments)
    assert outcome.status == 1
    assert message in outcome.err
    messages = [line for line in outcome.err.splitlines() if line.startswith("nnet3: ")]
    assert len([line for line in messages if not line.startswith("nnet3: warning: ")]) == 1
    assert all(char.isprintable() for char in outcome.err.replace("\n", ""))
    assert sorted(Path().rglob("*")) == before


def test_a_mistake_in_a_config_is_pointed_at(files: Cli) -> None:
    assert files("init", "unknown.config", "out").err.splitlines() == [
        "nnet3: unknown.config:2:31: unknown node 'inptu'",
        "  output-node name=output input=inptu",
        "                                ^^^^^ did you mean 'input'?",
    ]


def test_an_old_file_survives_a_failure(files: Cli) -> None:
    before = Path("net.raw").read_bytes()
    assert files("copy", "--nnet-config=unknown.config", "net.raw", "net.raw").status == 1
    assert Path("net.raw").read_bytes() == before


def test_a_file_that_cannot_be_read(files: Cli) -> None:
    Path("net.raw").chmod(0)
    try:
        Path("net.raw").read_bytes()
    except PermissionError:
        assert "net.raw: Permission denied" in files("info", "net.raw").err
    else:
        pytest.skip("this user may read everything")


@pytest.mark.parametrize(
    ("verb", "more", "message"),
    [
        ("am-adjust-priors", ["short.vec", "out"], "short.vec: 3 posteriors, but the model's output has dimension 152"),
        ("am-adjust-priors", ["nofile", "out"], "nofile"),
        ("am-copy", ["--set-raw-nnet=nofile", "out"], "nofile"),
        ("am-copy", ["--raw=true", "nofolder/out"], "nofolder/out: cannot write this file"),
    ],
)
def test_mistakes_with_an_acoustic_model(files: Cli, verb: str, more: list[str], message: str) -> None:
    options = [word for word in more if word.startswith("--")]
    outcome = files(verb, *options, MDL, *[word for word in more if word not in options])
    assert outcome.status == 1
    assert message in outcome.err
    assert not Path("out").exists()


def test_a_model_that_is_cut_off_anywhere(files: Cli) -> None:
    contents = MDL.read_bytes()
    for size in range(1, len(contents), len(contents) // 12):
        Path("cut.mdl").write_bytes(contents[:size])
        outcome = files("am-info", "cut.mdl")
        assert outcome.status == 1
        assert outcome.err.startswith("nnet3: cut.mdl: ")


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("explore net.raw net.raw", "net.raw"),
        ("explore --program=false net.config ivector.raw", "ivector.raw"),
        ("export-onnx net.raw net.raw", "net.raw"),
        ("init net.config net.config", "net.config"),
        ("copy-feats ark:feats.ark ark:net.raw", "net.raw"),
        ("copy-feats ark:feats.ark ark,scp:zz,zz", "feats.ark"),
        ("compute net.raw ark:feats.ark ark:net.raw", "net.raw"),
        ("feat-to-dim ark:feats.ark net.raw", "net.raw"),
        ("lattice-scale ark:lattices ark:lattices", "lattices"),
        ("lattice-union ark:lattices ark:lattices ark:./lattices", "lattices"),
    ],
)
def test_no_input_and_nothing_of_another_kind_is_replaced(command: str, kept: str, files: Cli) -> None:
    before = {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    outcome = files(*command.split())
    assert outcome.status != 0
    assert "take its place" in outcome.err or "are one file" in outcome.err
    assert Path(kept).read_bytes() == before[kept]
    assert {path.name for path in Path().iterdir() if path.is_file()} == set(before)


BEFORE_WORK = [
    "train net.raw ark:nofile {}",
    "train --write-cache={} net.raw ark:nofile out",
    "combine net.raw net.raw ark:nofile {}",
    "chain-train net.raw nofile.fst ark:nofile {}",
    "chain-combine nofile.fst net.raw net.raw ark:nofile {}",
    "discriminative-train net.raw ark:nofile {}",
    "rnnlm-train --read-rnnlm=nofile --write-rnnlm={} --read-embedding=nofile ark:nofile",
    "rnnlm-train --read-rnnlm=nofile --write-rnnlm=out --read-embedding=nofile --write-embedding={} ark:nofile",
    "rnnlm-get-sampling-lm --vocab-size=9 --bos-symbol=1 --eos-symbol=2 nofile {}",
    "compute-prob --compute-deriv=true net.raw ark:nofile {}",
    "chain-compute-prob --compute-deriv=true net.raw nofile.fst ark:nofile {}",
    "acc-lda-stats net.raw ark:nofile {}",
    "nnet-get-feature-transform {} nofile",
    "nnet-get-feature-transform --write-cholesky={} out nofile",
    "am-train-transitions nofile ark:nofile {}",
    "post-to-tacc nofile ark:nofile {}",
    "ivector-mean ark:nofile {}",
    "ivector-compute-lda ark:nofile ark:nofile {}",
    "ivector-compute-plda ark:nofile ark:nofile {}",
    "ivector-adapt-plda nofile ark:nofile {}",
    "est-pca ark:nofile {}",
    "chain-est-phone-lm ark:nofile {}",
    "chain-make-den-fst nofile nofile nofile {} out",
    "arpa2fst nofile {}",
    "arpa-to-const-arpa --bos-symbol=1 --eos-symbol=2 nofile {}",
    "init-tree nofile {} out",
    "explore nofile {}",
]


@pytest.mark.parametrize("command", BEFORE_WORK)
def test_a_recording_is_kept_before_any_work(command: str, files: Cli) -> None:
    Path("speech.wav").write_bytes(b"RIFF\x24\0\0\0WAVEfmt ")
    before = sorted(os.listdir())
    outcome = files(*command.format("speech.wav").split())
    assert outcome.status == 1
    assert "speech.wav: this is a recording; " in outcome.err
    assert "is not to take its place: write to another file, or remove this one first" in outcome.err
    assert sorted(os.listdir()) == before


def test_a_cache_and_a_network_of_one_name_are_refused_before_training(files: Cli) -> None:
    outcome = files("train", "--write-cache=out", "net.raw", "ark:nofile", "./out")
    assert outcome.status == 1
    assert "out: two outputs are to be written here" in outcome.err
    assert not Path("out").exists()


def test_a_copy_to_its_own_name_is_made(files: Cli) -> None:
    Path("net.raw").chmod(0o600)
    files.good("copy", "--binary=false", "net.raw", "net.raw")
    assert Path("net.raw").read_bytes().startswith(b"<Nnet3>")
    assert Path("net.raw").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("other", ["ark:x", "ark,t:./x", "ark,scp:y,x", "ark,scp:x,y"])
def test_two_outputs_of_one_name(cli: Cli, other: str, is_there: bool) -> None:
    with matrix_writer("ark:feats.ark") as writer:
        writer.write("utt", np.ones((5, 3), np.float32))
    if is_there:
        cli.good("copy-feats", "ark:feats.ark", "ark:x")
    outcome = cli("copy-feats", f"--write-num-frames={other}", "ark:feats.ark", "ark:x")
    assert outcome.status == 1
    assert "x: two outputs are to be written here: give each a name of its own" in outcome.err
    assert not [name for name in os.listdir() if name.endswith(".tmp")]
    cli.good("copy-feats", "--write-num-frames=ark:y", "ark:feats.ark", "ark:x")


@pytest.mark.parametrize(
    ("verb", "rule"),
    [
        ("online2-wav-dump-features", "<= 0 (all at once) or >= 0.001"),
        ("online2-wav-nnet3-latgen-faster", "<= 0 (all at once) or >= 0.001"),
        ("online2-tcp-nnet3-decode-faster", ">= 0.001"),
    ],
)
def test_audio_does_not_come_in_less_than_a_millisecond(cli: Cli, verb: str, rule: str) -> None:
    outcome = cli(verb, "--chunk-length=1e-9", "a", "b", "c")
    assert outcome.status != 0
    assert f"--chunk-length': it must be {rule}, got 1e-09." in outcome.err
