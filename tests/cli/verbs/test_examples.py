"""Verbs about training examples, end to end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.general import dense
from nnet3.examples import EXAMPLES, Example, ExampleReader
from nnet3.kaldi_io import CompressedMatrix, Posterior, SparseMatrix, int_vector_writer, matrix_writer, posterior_writer
from tests.cli.run_command import Cli, Shell
from tests.shared_data import GOLDEN, golden_cases, needs_shared

LENGTHS = {"utt1": 30, "utt2": 12, "utt3": 3}


@pytest.fixture(autouse=True)
def _tables(cli: Cli) -> None:
    rng = np.random.default_rng(0)
    with (
        matrix_writer("ark,scp:feats.ark,feats.scp") as feats,
        posterior_writer("ark:post.ark") as post,
        int_vector_writer("ark:pdf.ark") as pdf,
        matrix_writer("ark:targets.ark") as targets,
        matrix_writer("ark:ivectors.ark") as ivectors,
    ):
        for key, frames in LENGTHS.items():
            ids = rng.integers(6, size=frames).astype(np.int32)
            feats.write(key, rng.normal(size=(frames, 4)))
            post.write(key, Posterior(np.arange(frames + 1), ids, np.ones(frames, np.float32)))
            pdf.write(key, ids)
            targets.write(key, rng.normal(size=(frames, 2)))
            ivectors.write(key, rng.normal(size=(-(-frames // 10), 3)))


def _egs(name: str) -> dict[str, Example]:
    with ExampleReader(f"ark:{name}", EXAMPLES) as table:
        return dict(table)


def test_examples_are_made_of_tables(cli: Cli) -> None:
    options = ["--left-context=2", "--right-context=1", "--num-frames=10,6", "--num-pdfs=6", "--srand=3"]
    ivectors = ["--online-ivectors=ark:ivectors.ark", "--online-ivector-period=10"]
    outcome = cli.good("get-egs", *options, *ivectors, "scp:feats.scp", "ark:post.ark", "ark:egs.ark")
    made = _egs("egs.ark")
    assert f"{len(made)} examples of 3 utterances; 0 could not be used, of 1 no chunk could be made" in outcome.err
    assert "utt3 is left out: its 3 frames are too few" in outcome.err
    for example in made.values():
        kinds = {io.name: type(io.matrix) for io in example.ios}
        assert kinds == {"input": CompressedMatrix, "ivector": CompressedMatrix, "output": SparseMatrix}
        assert len(example.ios[0].indexes) == len(example.ios[2].indexes) + 3
    aligned = ["--pdf-alignments", "scp:feats.scp", "ark:pdf.ark", "ark:aligned.ark"]
    cli.good("get-egs", *options, *ivectors, *aligned)
    assert Path("aligned.ark").read_bytes() == Path("egs.ark").read_bytes()


def test_get_egs_decodes_features_that_a_script_cuts(cli: Cli) -> None:
    features = np.random.default_rng(0).normal(size=(30, 4))
    cli.good("get-egs", "--num-pdfs=6", "--num-frames=30", "scp:feats.scp", "ark:post.ark", "ark:one.ark")
    packed = _egs("one.ark")["utt1-0"].ios[0].matrix
    assert isinstance(packed, CompressedMatrix)
    with matrix_writer("ark,scp:packed.ark,packed.scp") as writer:
        writer.write("utt1", packed)
    Path("cut.scp").write_text(Path("packed.scp").read_text().strip() + "[0:9,1:2]\n")
    Path("short.ark").write_text("utt1 " + "3 " * 10 + "\n")
    options = ["--num-pdfs=6", "--num-frames=10", "--pdf-alignments"]
    cli.good("get-egs", *options, "scp:cut.scp", "ark:short.ark", "ark:cut.ark")
    matrix = _egs("cut.ark")["utt1-0"].ios[0].matrix
    np.testing.assert_allclose(dense(matrix), dense(packed)[:10, 1:3], atol=0.02)  # as Kaldi does: compressed anew
    assert features.shape == packed.shape


def test_get_egs_dense_targets(cli: Cli) -> None:
    arguments = ["--num-frames=6", "--compress=false", "scp:feats.scp", "ark:targets.ark", "ark:egs.ark"]
    cli.good("get-egs-dense-targets", "--num-targets=2", *arguments)
    for example in _egs("egs.ark").values():
        assert [dense(io.matrix).shape for io in example.ios] == [(6, 4), (6, 2)]
    outcome = cli("get-egs-dense-targets", "--num-targets=3", *arguments)
    assert outcome.status == 1
    assert "utt1 is left out: its target matrix has 2 columns, but --num-targets=3" in outcome.err
    assert "ark:egs.ark: no examples were written" in outcome.err


@pytest.mark.parametrize(
    "path", golden_cases("train", "egs.ark") + golden_cases("xvector", "egs.ark"), ids=lambda path: path.parent.name
)
def test_merge_egs_as_kaldi_does(cli: Cli, path: Path) -> None:
    """Numbers that were compressed may differ by the rounding that tests/examples/test_merging.py explains."""
    outcome = cli.good("merge-egs", "--minibatch-size=16", f"ark:{path / 'egs.ark'}", "ark:merged.ark")
    own, kaldis = _egs("merged.ark"), _egs(str(path / "merged.ark"))
    assert list(own) == list(kaldis)
    for made, wanted in zip(own.values(), kaldis.values(), strict=True):
        for one, other in zip(made.ios, wanted.ios, strict=True):
            assert one.name == other.name
            np.testing.assert_array_equal(one.indexes, other.indexes)
            atol = 2**-22 * np.abs(dense(other.matrix)).max()
            np.testing.assert_allclose(dense(one.matrix), dense(other.matrix), rtol=0, atol=atol)
    assert "were discarded\n  " in outcome.err
    assert "minibatches of 16 examples of" in outcome.err


def _make(cli: Cli, *options: str) -> dict[str, Example]:
    cli.good("get-egs", "--num-pdfs=6", "--num-frames=3", *options, "scp:feats.scp", "ark:post.ark", "ark:egs.ark")
    return _egs("egs.ark")


def test_shuffle_and_subset(cli: Cli) -> None:
    keys = list(_make(cli))
    assert len(keys) == 15
    for options in (["--buffer-size=4"], ["--buffer-size=0"]):
        cli.good("shuffle-egs", *options, "--srand=1", "ark:egs.ark", "ark:shuffled.ark")
        assert list(_egs("shuffled.ark")) != keys
        assert sorted(_egs("shuffled.ark")) == sorted(keys)
    outcome = cli.good("subset-egs", "--n=5", "--randomize-order=false", "ark:egs.ark", "ark:some.ark")
    assert "5 examples taken" in outcome.err
    assert set(_egs("some.ark")) < set(keys)


def test_copies_change_what_options_say(cli: Cli) -> None:
    made = _make(cli, "--left-context=3", "--right-context=3", "--compress=false")
    cli.good("copy-egs", "ark:egs.ark", "ark,t:1.ark", "ark:2.ark")
    assert [list(_egs(name)) for name in ("1.ark", "2.ark")] == [list(made)[0::2], list(made)[1::2]]
    cli.good("copy-egs", "--frame", "", "ark:egs.ark", "ark:all.ark")  # no frame is chosen
    assert Path("all.ark").read_bytes() == Path("egs.ark").read_bytes()
    Path("weights").write_text("utt1-0 0.5\nutt1-3 2\n")
    Path("names").write_text("utt1-0 output-1\nutt1-3 output-2\nutt1-6 output-3\n")
    options = ["--frame=1", "--left-context=2", "--right-context=0", "--frame-shift=1"]
    tables = ["--weights=ark:weights", "--outputs=ark:names"]
    outcome = cli.good("copy-egs", *options, *tables, "ark:egs.ark", "ark:changed.ark")
    assert "2 examples written" in outcome.err
    assert "utt1-6 is left out: ark:weights has no such key" in outcome.err
    changed = _egs("changed.ark")["utt1-0"]
    assert [io.name for io in changed.ios] == ["input", "output-1"]
    assert [io.indexes[:, 1].tolist() for io in changed.ios] == [[0, 1, 2], [2]]
    assert dense(changed.ios[1].matrix).sum() == 0.5
    outcome = cli.good("copy-egs", "--keep-proportion=2", "--random", "ark:egs.ark", "ark:a.ark", "ark:b.ark")
    assert "30 examples written" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["merge-egs", "--minibatch-size=a", "ark:egs.ark", "ark:x"], 1, "expected a number > 0, got 'a'"),
        (["merge-egs", "--minibatch-size=99", "ark:egs.ark", "ark:x"], 1, "15 examples made 0 minibatches, 15 were"),
        (["merge-egs", "ark:nofile", "ark:x"], 1, "ark:nofile: cannot read nofile"),
        (["copy-egs", "--frame=any", "ark:egs.ark", "ark:x"], 1, "a number or 'random', got 'any'"),
        (["copy-egs", "--frame=7", "ark:egs.ark", "ark:x"], 1, "no examples were written"),
        (["copy-egs", "--frame=" + "9" * 4400, "ark:egs.ark", "ark:x"], 2, "must be an integer that fits 32 bits"),
        (["copy-egs", "ark:egs.ark"], 2, "Missing argument 'EGS-WSPECIFIER...'"),
        (["copy-egs", "--frame=0", "ark:merged.ark", "ark:x"], 1, "the entry 'merged-0-15': frames can be chosen"),
        (["subset-egs", "--n=0", "ark:egs.ark", "ark:x"], 2, "--n"),
        (["get-egs", "scp:feats.scp", "ark:post.ark", "ark:x"], 2, "--num-pdfs"),
        (["get-egs", "--num-pdfs=6", "--num-frames=x", "scp:feats.scp", "ark:post.ark", "ark:x"], 2, "got 'x'"),
        (["get-egs", "--num-pdfs=2", "scp:feats.scp", "ark:post.ark", "ark:x"], 1, "are not of 2 pdfs"),
    ],
)
def test_mistakes_end_with_a_message(cli: Cli, arguments: list[str], status: int, message: str) -> None:
    _make(cli)
    cli.good("merge-egs", "--minibatch-size=1:64", "--measure-output-frames=false", "ark:egs.ark", "ark:merged.ark")
    outcome = cli(*arguments)
    assert outcome.status == status
    assert message in outcome.err
    assert not Path("x").exists()


def test_a_damaged_archive(cli: Cli) -> None:
    _make(cli)
    path = Path("egs.ark")
    path.write_bytes(path.read_bytes().replace(b"utt1-9 \0B<Nnet3Eg> <NumIo> ", b"utt1-9 \0B<Nnet3Eg> <NumIX> "))
    outcome = cli("merge-egs", "--minibatch-size=1:64", "ark:egs.ark", "ark:x")
    assert outcome.status == 1
    assert "ark:egs.ark: the entry 'utt1-9': egs.ark: byte " in outcome.err
    assert not Path("x").exists()
    outcome = cli.good("merge-egs", "--minibatch-size=1:64", "p,ark:egs.ark", "ark:x")
    assert "14 examples made 1 minibatches, 0 were discarded" in outcome.err
    assert "; 1 damaged records were left out" in outcome.err


@needs_shared
def test_a_pipeline_of_a_recipe(shell: Shell) -> None:
    outcome = shell(f"""
        nnet3-get-egs --num-pdfs=6 --num-frames=3 scp:feats.scp ark:post.ark ark:- | \\
          nnet3-copy-egs --random=true --srand=2 ark:- ark:1.ark ark:2.ark
        nnet3-shuffle-egs --buffer-size=5 --srand=4 'ark:cat 1.ark 2.ark |' ark:- | \\
          nnet3-merge-egs --minibatch-size=1:8 ark:- ark:merged.ark
        nnet3-subset-egs --n=10 ark:{GOLDEN}/train/tdnn/egs.ark ark:- | nnet3-merge-egs ark:- ark:x || echo discarded
        nnet3-get-egs-dense-targets --num-frames=3 scp:feats.scp ark:targets.ark ark:dense.ark
    """)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout == "discarded\n"
    assert [example.num_sequences for example in _egs("merged.ark").values()] == [8, 7]


def test_verbs_of_examples_do_not_wait_for_torch(cli: Cli) -> None:
    _make(cli)
    code = "import sys; sys.modules['torch'] = None; from nnet3.cli import main; main(sys.argv[1:])"
    for verb in ("merge-egs", "shuffle-egs", "subset-egs", "copy-egs"):
        command = [sys.executable, "-c", code, verb, "ark:egs.ark", "ark:out.ark"]
        process = subprocess.run(command, capture_output=True, text=True)
        assert "no examples were written" in process.stderr if verb == "merge-egs" else process.returncode == 0
    options = ["--num-pdfs=6", "scp:feats.scp", "ark:post.ark", "ark:out.ark"]
    assert subprocess.run([sys.executable, "-c", code, "get-egs", *options], capture_output=True).returncode == 0


def test_two_outputs_cannot_be_one_file(cli: Cli) -> None:
    cli.good("get-egs", "--num-pdfs=6", "scp:feats.scp", "ark:post.ark", "ark:egs.ark")
    outcome = cli("copy-egs", "ark:egs.ark", "ark:a.ark", "ark,t:./a.ark")
    assert "ark:a.ark and ark,t:./a.ark are one file" in outcome.err
    assert outcome.status == 1
    assert not Path("a.ark").exists()


def test_no_examples_says_why(cli: Cli) -> None:
    outcome = cli("get-egs", "--num-pdfs=6", "--num-frames=100", "scp:feats.scp", "ark:post.ark", "ark:egs.ark")
    assert "0 examples of 3 utterances; 0 could not be used, of 3 no chunk could be made" in outcome.err
    assert cli("get-egs", f"--num-pdfs={2**31}", "scp:feats.scp", "ark:post.ark", "ark:egs.ark").status == 2
