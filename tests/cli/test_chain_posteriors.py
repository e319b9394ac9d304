"""Posteriors of denominator graphs, against Kaldi's files."""

from __future__ import annotations

from pathlib import Path

from nnet3.base.kaldi_io.general import dense
from nnet3.chain import CHAIN_EXAMPLES
from nnet3.examples import ExampleReader
from nnet3.kaldi_io import open_matrix_table
from tests.cli.run_command import Cli
from tests.small_programs import BOUND, FOLDER, largest_difference, needs_small_programs, run_case

CASE = FOLDER / "chain_post"
pytestmark = needs_small_programs


def test_posteriors_are_kaldis(cli: Cli) -> None:
    case = run_case("chain_post", "post.cmd", "plain.raw", "den.fst", "feats.ark", "merged.ark", "phones.mat")
    for name in ("post", "phone_post"):
        with (
            open_matrix_table(f"ark:{name}.ark") as ours,
            open_matrix_table(f"ark:{case.golden(f'{name}.ark')}") as table,
        ):
            for (key, mine), (their_key, theirs) in zip(ours, table, strict=True):
                assert key == their_key
                assert largest_difference(mine, theirs) <= BOUND
    for name in ("den", "den_clipped", "raw"):
        with (
            ExampleReader(f"ark:{name}.ark", CHAIN_EXAMPLES) as ours,
            ExampleReader(f"ark:{case.golden(f'{name}.ark')}", CHAIN_EXAMPLES) as theirs,
        ):
            for (key, mine), (their_key, example) in zip(ours, theirs, strict=True):
                assert key == their_key
                assert [target.name for target in mine.outputs] == [target.name for target in example.outputs]
                for io, expected in zip(mine.inputs, example.inputs, strict=True):
                    assert (io.name, io.indexes.tolist()) == (expected.name, expected.indexes.tolist())
                    assert largest_difference(dense(io.matrix), dense(expected.matrix)) <= BOUND
    case.check_all_compared()


def test_examples_are_copied_for_other_types(cli: Cli) -> None:
    """Options of nnet3-chain-train are accepted."""
    options = ("--type=none", "--srand=3", "--xent-regularize=0.1", "--apply-deriv-weights=false")
    cli.good(
        "chain-add-post-to-egs", *options, CASE / "plain.raw", CASE / "den.fst", f"ark:{CASE}/merged.ark", "ark:same"
    )
    assert Path("same").read_bytes() == (CASE / "merged.ark").read_bytes()


def test_mistakes(cli: Cli) -> None:
    Path("two.mat").write_text(" [ 1 2 ]\n")
    compute = ("chain-compute-post", "--transform-mat=two.mat", CASE / "plain.raw", CASE / "den.fst")
    outcome = cli(*compute, f"ark:{CASE}/feats.ark", "ark:out.ark")
    assert outcome.status == 1
    assert "two.mat: expected a matrix with a column for each of 24 pdfs, got 2" in outcome.err
    Path("damaged.ark").write_bytes((CASE / "merged.ark").read_bytes()[:-40])
    outcome = cli("chain-add-post-to-egs", CASE / "plain.raw", CASE / "den.fst", "ark:damaged.ark", "ark:out.ark")
    assert (outcome.status, Path("out.ark").exists()) == (1, False)
