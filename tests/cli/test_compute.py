"""The verb compute: whole utterances, as Kaldi's nnet3-compute writes them."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from nnet3 import AcousticModel, Nnet, load
from nnet3.inference import cutting
from nnet3.kaldi_io import matrix_writer, open_matrix_table
from tests.call_count import count_calls_of
from tests.cli.run_command import CONFIG, IVECTOR_CONFIG, NORM_CONFIG, Cli
from tests.shared_data import GOLDEN, golden_cases

FEATURES = {"utt1": np.arange(30, dtype=np.float32).reshape(10, 3) / 30, "utt2": np.ones((1, 3), np.float32)}


def _read(path: str | Path) -> dict[str, np.ndarray]:
    with open_matrix_table(f"ark:{path}") as table:
        return {key: np.asarray(matrix) for key, matrix in table}


@pytest.fixture
def features(cli: Cli) -> Cli:
    with matrix_writer("ark:feats.ark") as writer:
        for key, matrix in FEATURES.items():
            writer.write(key, matrix)
    return cli


@pytest.mark.parametrize("folder", golden_cases("decode"), ids=lambda path: path.name)
def test_decoding_agrees_with_kaldi(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, *options = shlex.split((folder / "compute.cmd").read_text())
    monkeypatch.chdir(folder)  # the options name tables in it
    output = tmp_path / "out.ark"
    cli.good("compute", *options, "model.raw", "ark:feats.ark", f"ark:{output}")
    actual, expected = _read(output), _read(folder / "compute.ark")
    assert list(actual) == list(expected)
    for key, matrix in expected.items():
        assert actual[key].shape == matrix.shape
        assert np.linalg.norm(actual[key] - matrix) <= 1e-4 * np.linalg.norm(matrix)


@pytest.mark.parametrize("folder", golden_cases("decode"), ids=lambda path: path.name)
def test_batches_agree_with_kaldi(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, *options = shlex.split((folder / "compute.cmd").read_text())
    options = ["--extra-left-context=0" if option.startswith("--extra-left") else option for option in options]
    monkeypatch.chdir(folder)  # the options name tables in it
    output = tmp_path / "out.ark"
    cli.good("compute-batch", *options, "--minibatch-size=8", "model.raw", "ark:feats.ark", f"ark:{output}")
    actual, expected = _read(output), _read(folder / "batch.ark")
    assert list(actual) == list(expected)
    for key, matrix in expected.items():
        assert actual[key].shape == matrix.shape
        assert np.linalg.norm(actual[key] - matrix) <= 1e-4 * np.linalg.norm(matrix)


@pytest.mark.parametrize("folder", golden_cases("decode"), ids=lambda path: path.name)
def test_streams_agree_with_kaldi(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(folder)
    ivectors = "--online-ivectors=ark:ivectors.ark", "--online-ivector-period=10"
    chunks = "--frame-subsampling-factor=3", "--frames-per-chunk=20"  # which becomes 21
    output = tmp_path / "out.ark"
    outcome = cli.good("compute-looped", *ivectors, *chunks, "model.raw", "ark:feats.ark", f"ark:{output}")
    assert "chunks of 21 frames: p50 " in outcome.err
    assert "real-time factor" in outcome.err
    actual, expected = _read(output), _read(folder / "looped.ark")
    assert list(actual) == list(expected)
    for key, matrix in expected.items():
        assert actual[key].shape == matrix.shape
        assert np.linalg.norm(actual[key] - matrix) <= 1e-4 * np.linalg.norm(matrix)


@pytest.mark.parametrize(("verb", "many_rows"), [("compute", True), ("compute-batch", True), ("compute-looped", False)])
def test_networks_are_packed_for_streams_or_for_many_rows(
    features: Cli, verb: str, many_rows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, pack = list[bool](), Nnet.pack

    def noted(nnet: Nnet, *, many_rows: bool) -> Nnet:
        packed.append(many_rows)
        return pack(nnet, many_rows=many_rows)

    monkeypatch.setattr(Nnet, "pack", noted)
    features.good(verb, "net.raw", "ark:feats.ark", "ark:out.ark")
    assert packed == [many_rows]


def test_streams_leave_out_what_cannot_be_computed(features: Cli) -> None:
    with matrix_writer("ark:bad.ark") as writer:
        writer.write("wide", np.ones((4, 5), np.float32))
        writer.write("good", FEATURES["utt1"])
        writer.write("short", np.ones((1, 3), np.float32))
    outcome = features.good("compute-looped", "--acoustic-scale=0.5", "net.raw", "ark:bad.ark", "ark:looped.ark")
    assert "utterance 'wide' left out: the features must be (frames, 3), got (4, 5)" in outcome.err
    assert "2 utterances computed, 1 left out" in outcome.err
    features.good("compute", "--acoustic-scale=0.5", "net.raw", "ark:feats.ark", "ark:whole.ark")
    np.testing.assert_allclose(_read("looped.ark")["good"], _read("whole.ark")["utt1"], rtol=1e-5, atol=1e-6)
    assert "24 frames: p50" in outcome.err  # Kaldi's default


def test_chunks_give_what_the_whole_gives(features: Cli) -> None:
    features.good("compute", "net.raw", "ark:feats.ark", "ark:whole.ark")
    outcome = features.good("compute", "--frames-per-chunk=4", "net.raw", "ark:feats.ark", "ark:chunks.ark")
    assert "2 utterances computed, 0 left out; 11 frames" in outcome.err
    whole, chunks = _read("whole.ark"), _read("chunks.ark")
    for key, matrix in FEATURES.items():
        assert whole[key].shape == (len(matrix), 4)
        np.testing.assert_allclose(chunks[key], whole[key], rtol=1e-5, atol=1e-6)


def test_subsampling_takes_every_third_frame(features: Cli) -> None:
    features.good("compute", "net.raw", "ark:feats.ark", "ark:all.ark")
    features.good("compute", "--frame-subsampling-factor=3", "net.raw", "ark:feats.ark", "ark:third.ark")
    np.testing.assert_allclose(_read("third.ark")["utt1"], _read("all.ark")["utt1"][::3], rtol=1e-5)


def test_apply_exp_writes_posteriors(features: Cli) -> None:
    features.good("compute", "--apply-exp=true", "net.raw", "ark:feats.ark", "ark:out.ark")
    np.testing.assert_allclose(_read("out.ark")["utt1"].sum(axis=1), 1.0, rtol=1e-5)


def test_ivectors_one_each_or_online(features: Cli) -> None:
    Nnet.from_config(IVECTOR_CONFIG).save("ivector.raw")
    Path("single.ark").write_text("utt1  [ 1 2 ]\nutt2  [ 0 0 ]\n")
    with matrix_writer("ark:online.ark") as writer:
        writer.write("utt1", np.array([[1, 2]], np.float32))
    features.good("compute", "--ivectors=ark:single.ark", "ivector.raw", "ark:feats.ark", "ark:single_out.ark")
    options = ["--online-ivectors=ark:online.ark", "--online-ivector-period=20"]
    outcome = features.good("compute", *options, "ivector.raw", "ark:feats.ark", "ark:online_out.ark")
    assert "warning: utterance 'utt2' left out: no ivector for it" in outcome.err
    single, online = _read("single_out.ark"), _read("online_out.ark")
    assert list(online) == ["utt1"]
    np.testing.assert_allclose(online["utt1"], single["utt1"], rtol=3e-7)  # chunks add up in another order


def test_scripts_and_text(features: Cli) -> None:
    features.good("compute", "net.raw", "ark:feats.ark", "ark,scp:out.ark,out.scp")
    features.good("compute", "net.raw", "ark:feats.ark", "ark,t:out.txt")
    assert Path("out.txt").read_text().startswith("utt1  [")
    assert [line.split()[0] for line in Path("out.scp").read_text().splitlines()] == ["utt1", "utt2"]


def test_priors_are_subtracted(cli: Cli) -> None:
    model = GOLDEN / "mdl" / "1" / "final.mdl"
    with matrix_writer("ark:feats.ark") as writer:
        writer.write("utt", np.ones((3, 12), np.float32))
    cli.good("compute", model, "ark:feats.ark", "ark:plain.ark")
    cli.good("compute", "--use-priors=true", model, "ark:feats.ark", "ark:scores.ark")
    difference = _read("plain.ark")["utt"] - _read("scores.ark")["utt"]
    np.testing.assert_allclose(np.exp(difference).sum(axis=1), 1.0, rtol=1e-4)


@pytest.mark.filterwarnings("default")
def test_a_warning_of_the_library_is_one_line(features: Cli) -> None:
    Path("norm.config").write_text(NORM_CONFIG)
    features.good("init", "norm.config", "norm.raw")
    warning, summary = features.good("compute", "norm.raw", "ark:feats.ark", "ark:out.ark").err.splitlines()
    assert warning.startswith("nnet3: warning: a batch-norm component in test mode has no statistics")
    assert "2 utterances computed" in summary


def test_what_is_not_finite_is_left_out_and_said_where(cli: Cli) -> None:
    good, bad = np.ones((4, 3), np.float32), np.ones((4, 3), np.float32)
    bad[2, 1] = np.nan
    with matrix_writer("ark:feats.ark") as writer:
        writer.write("utt1", bad)
        writer.write("utt2", good)
    outcome = cli.good("compute", "net.raw", "ark:feats.ark", "ark:out.ark")
    assert "utterance 'utt1' left out: the features have a NaN or an infinity, first in row 2\n" in outcome.err
    assert list(_read("out.ark")) == ["utt2"]
    Nnet.from_config(IVECTOR_CONFIG).save("ivector.raw")
    Path("vectors").write_text("utt1 [ 0 1 ]\nutt2 [ inf 1 ]\n")
    outcome = cli("compute", "--ivectors=ark:vectors", "ivector.raw", "ark:feats.ark", "ark:out.ark")
    assert outcome.status == 1
    assert "utterance 'utt2' left out: the ivectors have a NaN or an infinity, first in row 0\n" in outcome.err


def test_progress_in_lines(features: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3.cli.tally._SECONDS_BETWEEN_LINES", 0.0)
    lines = features.good("compute", "net.raw", "ark:feats.ark", "ark:out.ark").err.splitlines()
    assert [line.partition(";")[0] for line in lines] == [
        "nnet3: 1 utterances computed, 0 left out",
        "nnet3: 2 utterances computed, 0 left out",
        "nnet3: 2 utterances computed, 0 left out",
    ]


def test_results_that_are_not_finite_are_not_written(features: Cli) -> None:
    """Outputs are finite, but not their exponentials."""
    affine = Nnet.from_config(CONFIG.replace("input=softmax", "input=affine"))
    affine.components["affine"].parameters()["bias_params"].fill_(200.0)
    affine.save("large.raw")
    outcome = features("compute", "--apply-exp", "large.raw", "ark:feats.ark", "ark:out.ark")
    assert outcome.status == 1
    assert "utterance 'utt1' left out: the result is not finite, first in row 0, column 0 after exp" in outcome.err
    assert not Path("out.ark").exists()


def test_a_prior_of_zero_is_named(features: Cli) -> None:
    model = load(GOLDEN / "mdl" / "1" / "final.mdl")
    assert isinstance(model, AcousticModel)
    priors = torch.full((152,), 1 / 152)
    priors[[17, 30]] = 0.0
    model.priors = priors
    model.save("zero.mdl")
    outcome = features("compute", "--use-priors=true", "zero.mdl", "ark:feats.ark", "ark:out.ark")
    assert outcome.status == 1
    assert "nnet3: zero.mdl: the prior of pdf 17 (and of 1 others) is 0" in outcome.err
    model.priors = torch.empty(0)
    model.save("none.mdl")
    with matrix_writer("ark:wide.ark") as writer:
        writer.write("utt", np.ones((3, 12), np.float32))
    outcome = features.good("compute", "--use-priors=true", "none.mdl", "ark:wide.ark", "ark:out.ark")
    assert "warning: none.mdl: --use-priors was given, but the model has no priors" in outcome.err
    features.good("compute", "none.mdl", "ark:wide.ark", "ark:plain.ark")
    assert Path("plain.ark").read_bytes() == Path("out.ark").read_bytes()


def test_ivectors_of_speakers(features: Cli) -> None:
    Nnet.from_config(IVECTOR_CONFIG).save("ivector.raw")
    Path("speakers.ark").write_text("anna  [ 1 2 ]\n")
    Path("utterances.ark").write_text("utt1  [ 1 2 ]\nutt2  [ 1 2 ]\n")
    Path("utt2spk").write_text("utt1 anna\nutt2 anna\n")
    features.good("compute", "--ivectors=ark:utterances.ark", "ivector.raw", "ark:feats.ark", "ark:expected.ark")
    options = ["--ivectors=ark:speakers.ark", "--utt2spk=ark:utt2spk"]
    features.good("compute", *options, "ivector.raw", "ark:feats.ark", "ark:out.ark")
    assert Path("out.ark").read_bytes() == Path("expected.ark").read_bytes()
    Path("utt2spk").write_text("utt2 bert\n")
    err = features("compute", *options, "ivector.raw", "ark:feats.ark", "ark:out.ark").err
    assert "utterance 'utt1' left out: no speaker for it in --utt2spk" in err
    assert "utterance 'utt2' left out: no ivector for its speaker 'bert'" in err


def test_the_defaults_are_kaldis(features: Cli) -> None:
    """A chunk has 50 frames: a recurrence begins again there."""
    config = """
        input-node name=input dim=3
        component name=sum type=NoOpComponent dim=3
        component-node name=sum component=sum input=Sum(input, IfDefined(Offset(sum, -1)))
        output-node name=output input=sum
    """
    Nnet.from_config(config).save("sum.raw")
    with matrix_writer("ark:long.ark") as writer:
        writer.write("utt", np.ones((120, 3), np.float32))
    features.good("compute", "sum.raw", "ark:long.ark", "ark:out.ark")
    np.testing.assert_array_equal(_read("out.ark")["utt"][:, 0], [*range(1, 51), *range(1, 51), *range(1, 21)])
    features.good("compute", "--frames-per-chunk=0", "sum.raw", "ark:long.ark", "ark:out.ark")
    np.testing.assert_array_equal(_read("out.ark")["utt"][:, 0], np.arange(1, 121))
    features.good("compute", "--acoustic-scale=0.5", "--online-ivector-period=0", "sum.raw", "ark:long.ark", "ark:o")
    assert _read("o")["utt"].max() == 25


@pytest.mark.parametrize(
    ("network", "options", "chunks"),
    [
        (CONFIG, [], 1),
        (CONFIG, ["--frames-per-chunk=50"], 3),
        (IVECTOR_CONFIG, ["--ivectors=ark:single.ark"], 1),
        (IVECTOR_CONFIG, ["--online-ivectors=ark:online.ark", "--online-ivector-period=20"], 3),
        (CONFIG.replace("Offset(input, -1)", "IfDefined(Offset(input, -9))"), [], 3),
    ],
)
def test_chunks_that_make_no_difference_are_left_out(cli: Cli, network: str, options: list[str], chunks: int) -> None:
    Nnet.from_config(network).save("network.raw")
    Path("single.ark").write_text("utt  [ 1 2 ]\n")
    for name, rows in (("feats", np.ones((120, 3), np.float32)), ("online", np.ones((6, 2), np.float32))):
        with matrix_writer(f"ark:{name}.ark") as writer:
            writer.write("utt", rows)
    words = ["compute", *options, "network.raw", "ark:feats.ark", "ark:out.ark"]
    assert count_calls_of(cutting._chunk, cli.good, *words) == chunks


def test_what_steers_internals_acts_where_there_is_something_to_steer(features: Cli) -> None:
    options = ["--optimization.optimize=false", "--computation.debug=true", "--optimization.snip-row-ops=true"]
    err = features.good("compute", "--verbose=2", *options, "net.raw", "ark:feats.ark", "ark:out.ark").err
    assert "affine.Propagate(" in err
    assert next(line for line in err.splitlines() if "ignored" in line).startswith(
        "nnet3: debug: ignored: --optimization.snip-row-ops=true"
    )
    features.good("compute", "net.raw", "ark:feats.ark", "ark:expected.ark")
    for key, matrix in _read("expected.ark").items():
        np.testing.assert_allclose(_read("out.ark")[key], matrix, rtol=1e-6)


def test_passes_that_run_are_chosen_by_kaldis_switches_and_by_level(features: Cli) -> None:
    words = ["net.raw", "ark:feats.ark", "ark:out.ark"]

    def program(option: str) -> list[str]:
        err = features.good("compute", "--computation.debug=true", f"--optimization.{option}", *words).err
        return [line.partition("  |")[0] for line in err.splitlines() if line.startswith("c")]

    assert program("level=3") != program("level=0") == program("optimize=false")
    assert program("move-sizing-commands=false") == program("disable-pass=move_sizing") != program("level=3")
    refused = features("compute", "--optimization.disable-pass=x", *words)
    assert refused.status == 1
    assert "no pass is called 'x': the passes are hoist_products, " in refused.err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_asked_for_must_be_there(features: Cli) -> None:
    for use in ("yes", "wait"):
        outcome = features("compute", f"--use-gpu={use}", "net.raw", "ark:feats.ark", "ark:out.ark")
        assert outcome.status == 1
        assert f"--use-gpu={use}: PyTorch finds no CUDA device here" in outcome.err
    features.good("compute", "--use-gpu=optional", "net.raw", "ark:feats.ark", "ark:out.ark")
    features.good("compute", "--device=cpu", "--use-gpu=yes", "net.raw", "ark:feats.ark", "ark:out.ark")


@pytest.mark.parametrize("option", ["--extra-left-context=2000000000", "--extra-right-context-final=2000000000"])
def test_absurd_sizes_are_refused_before_memory_is_taken(features: Cli, option: str) -> None:
    outcome = features("compute", option, "net.raw", "ark:feats.ark", "ark:out.ark")
    assert outcome.status == 1
    assert "GiB of memory, and 4 are allowed: use less extra context or a smaller frames_per_chunk" in outcome.err
