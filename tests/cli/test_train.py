"""train, compute-prob, show-progress, combine: on Kaldi's own runs, by Kaldi's names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from nnet3 import load, load_nnet
from nnet3.cli.run import run
from nnet3.examples import EXAMPLES, Example, NnetIo, example_writer
from nnet3.model.nnet import Nnet
from nnet3.train import Trainer, TrainerOptions
from tests.cli.run_command import CONFIG, Cli
from tests.shared_data import GOLDEN, needs_shared
from tests.train.examples_of import read_minibatches
from tools.kill_training_data import write_task

TDNN = GOLDEN / "train" / "tdnn"
EGS = f"ark:{TDNN / 'merged.ark'}"


@needs_shared
def test_training_is_that_of_the_library(cli: Cli) -> None:
    cli.good("train", "--srand=3", "--momentum=0.5", "--max-param-change=0.3", TDNN / "start.raw", EGS, "out.raw")
    nnet = load(TDNN / "start.raw")
    trainer = Trainer(nnet, TrainerOptions(seed=3, momentum=0.5, max_param_change=0.3))
    for minibatch in read_minibatches(TDNN / "merged.ark", nnet):
        trainer.train_minibatch(minibatch)
    nnet.save("expected.raw")
    assert Path("out.raw").read_bytes() == Path("expected.raw").read_bytes()


@needs_shared
def test_the_log_has_kaldis_lines(cli: Cli) -> None:
    log = cli.good("train", "--print-interval=4", "--write-cache=cache", TDNN / "start.raw", EGS, "out.raw").err
    assert "Average objective function for 'output' for minibatches 0-3 is -2.31" in log
    match = re.search(r"\[this line is to be parsed by a script:\] log-prob-per-frame=(\S+)", log)
    assert match is not None
    assert float(match.group(1)) == pytest.approx(-2.32927, rel=1e-4)
    assert "Wrote model to out.raw" in log


@needs_shared
def test_compute_prob_says_what_kaldi_says(cli: Cli) -> None:
    log = cli.good("compute-prob", TDNN / "plain.raw", EGS).err
    assert "Overall log-likelihood for 'output' is -2.2688" in log
    assert "Overall accuracy for 'output' is 0.133102 per frame, over 864 frames." in log
    assert "accuracy" not in cli.good("compute-prob", "--compute-accuracy=false", TDNN / "plain.raw", EGS).err
    other = cli.good("compute-prob", "--batchnorm-test-mode=false", TDNN / "plain.raw", EGS)
    assert other.out == ""


def test_compute_prob_by_column(cli: Cli) -> None:
    write_task(Path.cwd())
    Nnet.from_config_file("net.config").save("0.raw")

    def log(*options: str) -> str:
        return cli.good("compute-prob", "--batchnorm-test-mode=false", *options, "0.raw", "ark:valid.ark").err

    both = log("--compute-per-dim-accuracy=true")
    whole, per_dim = (re.search(rf"Overall {what} is (.*) per frame, over 80 frames\.", both) for what in (
        "accuracy for 'output'", "per-dim accuracy vector for 'output'"
    ))  # fmt: skip
    assert whole is not None
    assert per_dim is not None
    columns = [float(value) for value in per_dim[1].strip("[ ]").split()]
    assert len(columns) == 3
    assert min(columns) < float(whole[1]) < max(columns)
    assert "per-dim" not in log()
    assert "accuracy" not in log("--compute-accuracy=false", "--compute-per-dim-accuracy=true")


@needs_shared
def test_show_progress_says_differences_and_changes(cli: Cli) -> None:
    log = cli.good("show-progress", TDNN / "start.raw", TDNN / "plain.raw").err
    names = [name for name, component in load(TDNN / "plain.raw").components.items() if component.num_parameters]
    for line in ("Parameter differences per layer are", "Relative parameter differences per layer are"):
        (found,) = re.findall(rf"^nnet3: {line} \[ (.*) \]$", log, re.MULTILINE)
        assert [entry.split(":")[0] for entry in found.split()] == names
    assert "objf" not in log
    log = cli.good("show-progress", "--num-segments=2", TDNN / "start.raw", TDNN / "plain.raw", EGS).err
    assert "At position 0.25, objf per frame is -2.2" in log
    assert "Total objf change per component is [ " in log
    assert log.count("Overall accuracy for 'output' is 0.") == 2
    options = ("--compute-accuracy=false", "--compute-per-dim-accuracy=false")
    for given, lines in ((options[0], (0, 0)), (options[1].replace("false", "true"), (1, 1))):
        log = cli.good("show-progress", given, TDNN / "start.raw", TDNN / "plain.raw", EGS).err
        assert tuple(log.count(f"Overall {what} ") for what in ("accuracy", "per-dim accuracy")) == lines


@needs_shared
def test_as_kaldis_program_show_progress_has_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """It knows no test mode: batch-norm takes the statistics of minibatches."""
    files = [str(TDNN / "start.raw"), str(TDNN / "plain.raw"), str(EGS)]
    assert run(["--num-segments=2", *files], "nnet3-show-progress") == 0
    log = capsys.readouterr().err
    expected = {
        "Total objf change per component is": (0.00255875, 0.00364402, 0.0272487),
        "Parameter differences per layer are": (0.275418, 0.406775, 0.848855),
        "Norms of parameter matrices from <new-nnet-in> are": (7.8196, 7.21457, 0.848855),
        "Relative parameter differences per layer are": (0.0352464, 0.0548839, float("inf")),
    }
    for line, numbers in expected.items():
        (found,) = re.findall(rf"^nnet3: {line} \[ (.*) \]$", log, re.MULTILINE)
        assert [float(each.split(":")[1]) for each in found.split()] == pytest.approx(numbers, rel=1e-3)
    at = [float(each) for each in re.findall(r"objf per frame is (\S+)", log)]
    assert at == pytest.approx([-2.28911, -2.27216], abs=1e-4)


def test_networks_of_other_sizes_have_no_progress_to_show(cli: Cli) -> None:
    """Which is no failure, as in Kaldi: scripts show it in the background of a run whose network may have grown."""
    Path("small").write_text(CONFIG)
    Path("large").write_text(CONFIG.replace("dim=4", "dim=5"))
    for name in ("small", "large"):
        cli.good("init", name, f"{name}.raw")
    outcome = cli.good("show-progress", "small.raw", "large.raw", "ark:none")
    assert "small.raw has 28 parameters and large.raw 35: there is no progress to show" in outcome.err


@needs_shared
def test_the_best_average_is_written(cli: Cli) -> None:
    models = [TDNN / f"{name}.raw" for name in ("plain", "momentum", "start")]
    log = cli.good("combine", *models, EGS, "best.raw").err
    assert "objective function using the last model is -2." in log
    assert "Combining last 3 models, objective function is -2." in log
    assert "Finished combining neural nets, wrote model to best.raw" in log
    (count,) = re.findall(r"Using the model averaged over last (\d) models", log)
    cli.good("average", *models[: int(count)], "mean.raw")
    for name, component in load("best.raw").components.items():
        for key, tensor in component.parameters().items():
            torch.testing.assert_close(tensor, load("mean.raw").components[name].parameters()[key])


def bad(cli: Cli, *arguments: str | Path) -> str:
    outcome = cli(*arguments)
    assert outcome.status == 1
    return outcome.err


@needs_shared
def test_mistakes_end_with_a_message(cli: Cli) -> None:
    outcome = cli("train", "--momentum=1", TDNN / "start.raw", EGS, "x.raw")
    assert outcome.status == 2
    assert "'--momentum': it must be >= 0 and < 1, got 1.0" in outcome.err
    Path("empty.ark").write_bytes(b"")
    assert "no minibatch to train on" in bad(cli, "train", TDNN / "start.raw", "ark:empty.ark", "as_before.raw")
    assert "no examples" in bad(cli, "compute-prob", TDNN / "plain.raw", "ark:empty.ark")
    times = ["--optimization.min-deriv-time=5", "--optimization.max-deriv-time=4"]
    said = bad(cli, "train", *times, TDNN / "start.raw", EGS, "x.raw")
    assert "--optimization.min-deriv-time is 5, after --optimization.max-deriv-time, 4" in said
    assert cli("train", "--optimization.min-deriv-time=0.5", TDNN / "start.raw", EGS, "x.raw").status == 2
    assert not Path("x.raw").exists()
    assert cli("combine", "a.raw", "ark:b").status == 2


def test_where_nothing_can_be_written_nothing_is_computed(cli: Cli) -> None:
    for verb in ("train", "combine"):
        assert "none/x.raw: cannot write this file: No such file" in bad(cli, verb, "a.raw", "ark:b", "none/x.raw")
    Path("folder").mkdir()
    assert "folder: cannot write this file: Is a directory" in bad(cli, "train", "a.raw", "ark:b", "folder")
    Path("old.raw").write_bytes(b"as it was")
    assert "a.raw: cannot read" in bad(cli, "train", "a.raw", "ark:b", "old.raw")
    assert Path("old.raw").read_bytes() == b"as it was"
    assert [path.name for path in Path().iterdir() if path.name.endswith(".tmp")] == []


@needs_shared
def test_derivative_times_are_obeyed(cli: Cli) -> None:
    """Those that include all change nothing, Kaldi's defaults included; those that include some are obeyed."""
    times = {
        "all": [],
        "wide": ["--optimization.min-deriv-time=-100", "--optimization.max-deriv-time-relative=100"],
        "kaldi": ["--optimization.min-deriv-time=-2147483648", "--optimization.max-deriv-time=2147483647"],
        "few": ["--optimization.max-deriv-time-relative=-1"],
        "none": ["--optimization.min-deriv-time=1000"],
    }
    for name, options in times.items():
        cli.good("train", *options, TDNN / "start.raw", EGS, f"{name}.raw")
    assert Path("wide.raw").read_bytes() == Path("kaldi.raw").read_bytes() == Path("all.raw").read_bytes()
    assert Path("few.raw").read_bytes() != Path("all.raw").read_bytes()


@needs_shared
def test_a_minibatch_that_is_not_finite_is_named(cli: Cli) -> None:
    with example_writer("ark:bad.ark", EXAMPLES) as writer:
        for key, minibatch in enumerate(read_minibatches(TDNN / "merged.ark", load(TDNN / "start.raw"))):
            ios = [NnetIo(io.name, io.indexes, io.matrix.numpy()) for io in minibatch.inputs]
            if key == 2:
                ios[0].matrix[5, 3] = float("nan")
            targets = [NnetIo(t.name, t.indexes, t.matrix) for t in minibatch.targets]  # type: ignore[attr-defined]
            writer.write(f"key-{key}", Example((*ios, *targets)))
    log = cli.good("train", TDNN / "start.raw", "ark:bad.ark", "out.raw").err
    assert "minibatch 'key-2' is skipped: input 'input' is not finite" in log
    assert "had to be skipped" in bad(cli, "train", "--max-skipped=0", TDNN / "start.raw", "ark:bad.ark", "x.raw")


@needs_shared
def test_an_example_that_does_not_fit_is_named(cli: Cli) -> None:
    start = load(TDNN / "start.raw")
    (first, *_) = read_minibatches(TDNN / "merged.ark", start)
    (given,) = first.inputs
    target = NnetIo("output", first.targets[0].indexes, first.targets[0].matrix)  # type: ignore[attr-defined]
    whole = NnetIo("input", given.indexes, given.matrix.numpy())
    wrong = {
        "short": (NnetIo("input", given.indexes[:, [0, 2, 1]], given.matrix.numpy()), target),
        "narrow": (NnetIo("input", given.indexes, given.matrix[:, 1:].numpy()), target),
        "strange": (whole, target, NnetIo("ivector2", given.indexes, given.matrix.numpy())),
    }
    for key, ios in wrong.items():
        with example_writer(f"ark:{key}.ark", EXAMPLES) as writer:
            writer.write(f"key-{key}", Example(ios))
    for verb in ("train", "combine"):
        assert "minibatch 'key-short': not computable" in bad(cli, verb, TDNN / "start.raw", "ark:short.ark", "x.raw")
        narrow = bad(cli, verb, TDNN / "start.raw", "ark:narrow.ark", "x.raw")
        assert "ark:narrow.ark: the entry 'key-narrow': input 'input' has " in narrow
        strange = bad(cli, verb, TDNN / "start.raw", "ark:strange.ark", "x.raw")
        assert "the entry 'key-strange': the example has 'ivector2', but the network has the inputs" in strange
    assert not Path("x.raw").exists()


COMPUTING = [
    "train net.raw ark:egs.ark out.raw",
    "chain-train net.raw den.fst ark:egs.ark out.raw",
    "compute-prob net.raw ark:egs.ark",
    "chain-compute-prob net.raw den.fst ark:egs.ark",
    "combine net.raw net.raw ark:egs.ark out.raw",
    "chain-combine den.fst net.raw ark:egs.ark out.raw",
    "show-progress net.raw net.raw ark:egs.ark",
    "compute net.raw ark:feats.ark ark:out.ark",
    "profile net.raw",
]


@pytest.mark.parametrize("command", COMPUTING)
@pytest.mark.parametrize("use", ["yes", "wait"])
def test_who_must_use_a_gpu_is_refused_without_one(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str, use: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    verb, *words = command.split()
    before = sorted(Path().iterdir())
    outcome = cli(verb, f"--use-gpu={use}", *words)
    assert outcome.status == 1
    assert outcome.err == f"nnet3: --use-gpu={use}: PyTorch finds no CUDA device here; say --use-gpu=no or optional\n"
    assert sorted(Path().iterdir()) == before


def test_the_demo_and_whole_runs_say_where_they_compute(cli: Cli) -> None:
    Path("run.toml").write_text('[model]\nfile = "net.raw"\n[output]\nfolder = "exp"\n')
    for verb, words, reason in (
        ("demo", [], "--use-gpu=yes: what this verb computes runs on the CPU: leave that out"),
        ("show-computation", ["net.raw"], "--use-gpu=yes: what this verb computes runs on the CPU: leave that out"),
        ("train-model", ["run.toml"], '--use-gpu=yes: run.toml says where: device = "cuda" in [training]'),
    ):
        outcome = cli(verb, "--use-gpu=yes", *words)
        assert outcome.status == 2
        assert reason in outcome.err
    outcome = cli("train-model", "--use-gpu=no", "run.toml")
    assert outcome.status == 1
    assert "use-gpu" not in outcome.err


@needs_shared
@pytest.mark.filterwarnings("default")
def test_compiled_computations_are_kept_in_a_file(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = cli.good("train", "--read-cache=none", "--write-cache=cache.1", TDNN / "start.raw", EGS, "first.raw")
    reason = "none: cannot read this file: No such file or directory: computations are compiled anew"
    assert f"nnet3: warning: {reason}" in outcome.err
    with monkeypatch.context() as patch:
        patch.setattr("nnet3.engine.driver.task.optimize", None)
        words = ["--read-cache=cache.1", "--write-cache=cache.2", "--binary-write-cache=true"]
        assert "warning" not in cli.good("train", *words, TDNN / "start.raw", EGS, "second.raw").err
    assert Path("second.raw").read_bytes() == Path("first.raw").read_bytes()
    assert Path("cache.2").read_bytes() == Path("cache.1").read_bytes()
    whole = Path("cache.1").read_bytes()
    Path("cache.1").write_bytes(whole[:-1] + b"x")
    outcome = cli.good("train", "--read-cache=cache.1", TDNN / "start.raw", EGS, "third.raw")
    assert "cache.1: the rest is not used: its checksum is wrong" in outcome.err
    assert Path("third.raw").read_bytes() == Path("first.raw").read_bytes()
    outcome = cli("train", "--write-cache=nofolder/cache", TDNN / "start.raw", EGS, "out.raw")
    assert (outcome.status, Path("out.raw").exists()) == (1, False)
    assert "nofolder/cache" in outcome.err
    outcome = cli("train", "--write-cache=/dev/full", TDNN / "start.raw", EGS, "out.raw")
    assert outcome.status == 1


@needs_shared
def test_the_gradient_of_an_objective_is_a_network(cli: Cli) -> None:
    folder = GOLDEN / "train" / "tdnn"
    arguments = [folder / "plain.raw", f"ark:{folder / 'merged.ark'}", "gradient.raw"]
    said = cli.good("compute-prob", "--compute-deriv=true", *arguments).err
    gradient = load_nnet("gradient.raw")
    for name, square in gradient.squared_norms().items():
        assert f"Norm of the gradient of '{name}' is {square**0.5:g}" in said
    outcome = cli("compute-prob", "--compute-deriv=true", *arguments[:2], "nosuch/gradient.raw")
    assert outcome.status == 1
    assert "nosuch/gradient.raw: cannot write" in outcome.err
    assert "Overall" not in outcome.err  # it is said before the work
    outcome = cli("compute-prob", *arguments)
    assert (outcome.status, "say --compute-deriv=true" in outcome.err) == (2, True)
