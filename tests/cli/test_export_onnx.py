from __future__ import annotations

from pathlib import Path

import nnet3
from tests.asr.small_recognizer import write_recognizer
from tests.cli.run_command import CONFIG, IVECTOR_CONFIG, Cli


def test_a_file_with_its_options(cli: Cli) -> None:
    nnet3.Nnet.from_config(IVECTOR_CONFIG).save("net.raw")
    options = ("--frames-per-chunk=12", "--frame-subsampling-factor=3", "--acoustic-scale=0.5", "--log-softmax=true")
    outcome = cli.good("export-onnx", *options, "net.raw", "net.onnx")
    assert outcome.err == "nnet3: input (batch, 10, 3), ivector (batch, 2) -> output (batch, 4, 4)\n"
    about = nnet3.load_onnx_metadata("net.onnx")
    assert (about.frame_subsampling_factor, about.acoustic_scale, about.log_softmax) == (3, 0.5, True)


def test_a_file_for_any_length(cli: Cli) -> None:
    nnet3.Nnet.from_config(CONFIG).save("net.raw")
    outcome = cli.good("export-onnx", "--frames-per-chunk=0", "net.raw", "net.onnx")
    assert outcome.err == "nnet3: input (batch, frames, 3) -> output (batch, rows, 4)\n"


def test_a_file_with_lengths_of_its_own_says_so(cli: Cli) -> None:
    config = """
        input-node name=input dim=3
        component name=affine type=AffineComponent input-dim=6 output-dim=3
        component-node name=affine component=affine input=Append(input, IfDefined(Offset(affine, 1)))
        output-node name=output input=affine
    """
    nnet3.Nnet.from_config(config).save("net.raw")
    outcome = cli.good("export-onnx", "--frames-per-chunk=0", "net.raw", "net.onnx")
    assert outcome.err.splitlines()[-1] == f"nnet3: {nnet3.load_onnx_metadata('net.onnx').note}"
    assert "Own lengths: outputs are those of nnet3 for " in outcome.err


def test_a_file_for_streams(cli: Cli) -> None:
    nnet3.Nnet.from_config(CONFIG).save("net.raw")
    outcome = cli.good("export-onnx", "--frames-per-chunk=12", "--streaming=true", "net.raw", "net.onnx")
    assert outcome.err == "nnet3: input (batch, at first 12, then 12, 3) -> output (batch, 12, 4)\n"
    assert nnet3.load_onnx_metadata("net.onnx").state == {"state.input": [1, 3]}


def test_a_file_that_takes_samples(cli: Cli) -> None:
    nnet3.Nnet.from_config(CONFIG).save("net.raw")
    Path("fbank.conf").write_text("--num-mel-bins=3\n--sample-frequency=8000\n")
    options = ("--frames-per-chunk=12", "--streaming=true", "--features=fbank:fbank.conf")
    outcome = cli.good("export-onnx", *options, "net.raw", "net.onnx")
    assert outcome.err == "nnet3: wave (batch, at first 1080, then 960) -> output (batch, 12, 4)\n"
    outcome = cli("export-onnx", "--features=fbank:none.conf", "net.raw", "bad.onnx")
    assert (outcome.status, outcome.err) == (1, "nnet3: none.conf: cannot read this file: No such file or directory\n")


def test_mistakes_leave_nothing_behind(cli: Cli) -> None:
    nnet3.Nnet.from_config(CONFIG).save("net.raw")
    outcome = cli("export-onnx", "--outputs=xent", "net.raw", "net.onnx")
    assert (outcome.status, outcome.err) == (1, "nnet3: outputs must be some of output, each once, got xent\n")
    assert cli("export-onnx", "--frames-per-chunk=-1", "net.raw", "net.onnx").status == 2
    assert not Path("net.onnx").exists()


def test_sherpa(cli: Cli, tmp_path: Path) -> None:
    model = write_recognizer(tmp_path / "model", with_ivector=False)
    cli.good("export-sherpa", model, "out")
    assert sorted(each.name for each in Path("out").iterdir()) == ["HLG.fst", "model.onnx", "tokens.txt", "words.txt"]
    assert "there is no such model directory" in cli("export-sherpa", "nofolder", "out").err
