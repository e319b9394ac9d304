"""Verbs that make graphs, supervision and examples of sequence training, end to end."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from nnet3.chain import CHAIN_EXAMPLES, ChainExample
from nnet3.examples import ExampleReader
from nnet3.kaldi_io import Fst, load_fst, save_fst
from nnet3.model.nnet import load_transition_model
from nnet3.training.chain.graphs import openfst
from tests.cli.run_command import Cli, Shell
from tests.shared_data import GOLDEN, needs_shared

pytest.importorskip("kaldifst")
pytestmark = needs_shared
NEEDED = ("tree", "0.trans_mdl", "phones.ark", "lengths.ark", "feats.ark", "phone_lm.fst", "normalization.fst")


def _copy(name: str, *more: str) -> None:
    for file in (*NEEDED, *more):
        shutil.copy(GOLDEN / "chain" / name / file, file)


def _examples(name: str) -> dict[str, ChainExample]:
    with ExampleReader(f"ark:{name}", CHAIN_EXAMPLES) as table:
        return dict(table)


def test_from_phones_to_examples(cli: Cli) -> None:
    _copy("mono", "sup.ark")
    outcome = cli.good(
        *("chain-est-phone-lm", "--ngram-order=3", "--no-prune-ngram-order=2", "--num-extra-lm-states=10"),
        *("ark:phones.ark", "lm.fst"),
    )
    assert "a phone language model of 23 states and 85 arcs" in outcome.err
    np.testing.assert_array_equal(load_fst("lm.fst").cost, load_fst("phone_lm.fst").cost)
    outcome = cli.good("chain-make-den-fst", "tree", "0.trans_mdl", "lm.fst", "den.fst", "norm.fst")
    assert "a denominator graph of 23 states and 107 arcs" in outcome.err
    assert load_fst("norm.fst").num_arcs == load_fst("normalization.fst").num_arcs
    outcome = cli.good(
        *("chain-get-supervision", "--frame-subsampling-factor=3", "tree", "0.trans_mdl"),
        *("ark:lengths.ark", "ark:supervision.ark"),
    )
    assert "supervision of 14 utterances; 0 could not be used" in outcome.err
    assert Path("supervision.ark").read_bytes() == Path("sup.ark").read_bytes()
    options = ["--frame-subsampling-factor=3", "--left-context=6", "--right-context=6", "--num-frames=30,20"]
    outcome = cli.good("chain-get-egs", *options, "norm.fst", "ark:feats.ark", "ark:supervision.ark", "ark:egs")
    made = _examples("egs")
    assert (
        f"{len(made)} examples of 14 utterances; 0 could not be used, of 0 no chunk could be made; split" in outcome.err
    )
    assert {example.outputs[0].supervision.frames_per_sequence for example in made.values()} == {7, 10}
    cli.good("chain-get-egs", *options, "ark:feats.ark", "ark:supervision.ark", "ark:raw")
    assert all(example.outputs[0].supervision.fsts[0].has_epsilons for example in _examples("raw").values())
    outcome = cli.good("chain-normalize-egs", "--normalization-fst-scale=0.5", "norm.fst", "ark:raw", "ark:normalized")
    assert f"{len(_examples('raw'))} examples normalized; 0 could not be" in outcome.err


def test_supervisions_are_made_of_lattices(cli: Cli) -> None:
    _copy("lattice", "phone_lat.ark")
    options = ["--lattice-input=true", "--lm-scale=0.5", "--frame-subsampling-factor=3", "--weight=3"]
    outcome = cli.good("chain-get-supervision", *options, "tree", "0.trans_mdl", "ark:phone_lat.ark", "ark:sup")
    assert "supervision of 14 utterances" in outcome.err


def test_end_to_end_supervisions_make_examples(cli: Cli) -> None:
    _copy("unconstrained", "sup.ark")
    options = ["--frame-subsampling-factor=3", "--num-frames=30", "--transition-model=0.trans_mdl", "--long-key=true"]
    cli.good("chain-get-egs", *options, "normalization.fst", "ark:feats.ark", "ark:sup.ark", "ark:egs")
    made = _examples("egs")
    assert all(example.outputs[0].supervision.end_to_end for example in made.values())
    assert all(key.endswith("-0-30-0-v1") for key in made)


def test_end_to_end(cli: Cli) -> None:
    _copy("e2e", "graphs.ark")
    options = ["--frame-subsampling-factor=3", "--num-frames=42,51,60,69"]
    files = ["normalization.fst", "ark:feats.ark", "ark:graphs.ark", "0.trans_mdl", "ark:egs"]
    outcome = cli.good("chain-e2e-get-egs", *options, *files)
    assert f"{len(_examples('egs'))} examples of " in outcome.err


@pytest.mark.parametrize(("bad", "status"), [(0, 0), (1, 0), (2, 1)])
def test_supervision_of_more_utterances_than_not_is_good(cli: Cli, bad: int, status: int) -> None:
    _copy("mono")
    good = "".join(f"good{number} 1 3 ; 2 4\n" for number in range(2))
    Path("phones").write_text(good + "".join(f"bad{number} 1 0\n" for number in range(bad)))
    options = ["--frame-subsampling-factor=3", "tree", "0.trans_mdl"]
    outcome = cli("chain-get-supervision", *options, "ark:phones", "ark:sup")
    assert outcome.status == status
    assert f"supervision of 2 utterances; {bad} could not be used\n" in outcome.err


@pytest.mark.parametrize(("denominator", "normalization"), [("none/den", "norm"), ("den", "none/norm")])
def test_graphs_that_cannot_be_written_are_not_made(cli: Cli, denominator: str, normalization: str) -> None:
    """That is found out before anything is read."""
    outcome = cli("chain-make-den-fst", "no", "such", "files", denominator, normalization)
    assert outcome.status == 1
    assert "cannot write this file: No such file or directory" in outcome.err
    assert cli("chain-est-phone-lm", "ark:none", "none/lm").err.startswith("nnet3: none/lm: cannot write this file")
    assert "such: cannot read this file" in cli("chain-make-den-fst", "no", "such", "files", "den", "norm").err


def test_pdfs_that_do_not_occur_are_counted(cli: Cli) -> None:
    _copy("mono")
    graph = load_fst("phone_lm.fst")
    (self_loop,) = {int(graph.ilabel[0])}
    save_fst(Fst.from_arcs(0, [0.0], [0], [0], [self_loop], [0.5]), "one.fst")
    outcome = cli.good("chain-make-den-fst", "tree", "0.trans_mdl", "one.fst", "den.fst", "norm.fst")
    occurring = len(set(load_fst("den.fst").ilabel.tolist()))
    total = load_transition_model("0.trans_mdl").num_pdfs
    assert 0 < occurring < total
    assert f"warning: {total - occurring} of {total} pdfs do not occur in the denominator graph\n" in outcome.err


def test_mistakes_end_with_status_1(cli: Cli) -> None:
    _copy("mono", "sup.ark", "den.fst")
    Path("few.txt").write_text("utt000 1 3 ; 2 4\nutt001 1 0\nutt002 7 1 ; 3 1 ; 2 1\n")
    arguments = ["tree", "0.trans_mdl", "ark:few.txt", "ark,t:few.sup"]
    outcome = cli("chain-get-supervision", "--frame-subsampling-factor=3", *arguments)
    assert outcome.status == 1
    assert "warning: utt001 is left out: phones and durations must be above 0, got phone 1 for 0 frames" in outcome.err
    assert "utt002 is left out: its phones do not fit into 1 output frames" in outcome.err
    assert "supervision of 1 utterances; 2 could not be used" in outcome.err
    for arguments, status, message in (
        (["chain-get-egs", "ark:a", "ark:b"], 2, "give tables of features and supervision"),
        (["chain-est-phone-lm", "--ngram-order=1", "ark:phones.ark", "x"], 2, "1 is not in the range x>=2"),
        (["chain-make-den-fst", "tree", "0.trans_mdl", "tree", "a", "b"], 1, "begins with the bytes d6 fd b2 7e"),
        (["chain-get-supervision", "--lm-scale=1", "tree", "0.trans_mdl", "ark:lengths.ark", "ark:x"], 2, "< 1, got 1"),
        (
            ["chain-get-egs", "--transition-model=0.trans_mdl", "ark:feats.ark", "ark:sup.ark", "ark:x"],
            1,
            "no examples",
        ),
    ):
        outcome = cli(*arguments)
        assert outcome.status == status
        assert message in outcome.err
    assert not Path("x").exists()


def test_without_kaldifst_the_error_says_what_to_install(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _copy("mono", "sup.ark")
    monkeypatch.setattr(openfst, "kaldifst", None)
    options = ["--frame-subsampling-factor=3", "--num-frames=30"]
    outcome = cli("chain-get-egs", *options, "normalization.fst", "ark:feats.ark", "ark:sup.ark", "ark:egs")
    assert outcome.status == 1
    assert "needs the package kaldifst, which is not installed: pip install 'nnet3[chain]'" in outcome.err
    cli.good("chain-get-egs", *options, "ark:feats.ark", "ark:sup.ark", "ark:egs")
    cli.good("chain-get-supervision", "--frame-subsampling-factor=3", "tree", "0.trans_mdl", "ark:lengths.ark", "ark:s")


def test_kaldis_programs_work_in_a_pipe(shell: Shell) -> None:
    folder = GOLDEN / "chain" / "mono"
    outcome = shell(f"""
        chain-get-supervision --frame-subsampling-factor=3 {folder}/tree {folder}/0.trans_mdl \\
          ark:{folder}/lengths.ark ark:- |
          nnet3-chain-get-egs --frame-subsampling-factor=3 --num-frames=30 ark:{folder}/feats.ark ark:- ark:egs
    """)
    assert outcome.returncode == 0, outcome.stderr
    assert _examples("egs")
