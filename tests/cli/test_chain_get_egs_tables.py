"""Chain examples from tables: what is made of each utterance, what is left out and counted, where tables lack keys."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from nnet3.chain import CHAIN_EXAMPLES, ChainExample
from nnet3.examples import ExampleReader
from nnet3.kaldi_io import CompressionMethod, TableWriter, compress, matrix_writer, open_matrix_table, vector_writer
from tests.cli.run_command import Cli
from tests.shared_data import GOLDEN, needs_shared

pytestmark = needs_shared
CHAIN = GOLDEN / "chain"
CHUNKS = ["--frame-subsampling-factor=3", "--num-frames=30"]
FRAMES = {"utt000": 74, "utt001": 83, "utt002": 99}


@pytest.fixture(autouse=True)
def _tables(cli: Cli) -> None:
    """Features of three utterances, and of one that nothing else is known of; ivectors and weights of the first two."""
    for name in ("sup.ark", "normalization.fst", "egs.ark"):
        shutil.copy(CHAIN / "mono" / name, name)
    with open_matrix_table(f"ark:{CHAIN / 'mono' / 'feats.ark'}") as table:
        features = {key: np.asarray(matrix) for key, matrix in table}
    with (
        matrix_writer("ark:feats.ark") as writer,
        matrix_writer("ark:ivectors.ark") as ivectors,
        vector_writer("ark:weights.ark") as weights,
    ):
        for number, (key, frames) in enumerate(FRAMES.items()):
            assert len(features[key]) == frames
            writer.write(key, features[key])
            if number < 2:
                ivectors.write(key, np.full((-(-frames // 10), 4), number))
                weights.write(key, np.full(-(-frames // 3), 0.5))
        writer.write("extra", features["utt000"])


def _examples(name: str) -> dict[str, ChainExample]:
    with ExampleReader(f"ark:{name}", CHAIN_EXAMPLES) as table:
        return dict(table)


def _lines(err: str) -> list[str]:
    return [line.removeprefix("nnet3: ").partition("; split")[0] for line in err.splitlines()]


def test_chunks_of_each_utterance(cli: Cli) -> None:
    outcome = cli.good("chain-get-egs", *CHUNKS, "ark:feats.ark", "ark:sup.ark", "ark:egs")
    made = _examples("egs")
    assert [key.partition("-")[0] for key in made] == ["utt000"] * 3 + ["utt001"] * 3 + ["utt002"] * 3
    assert _lines(outcome.err) == [
        "warning: extra is left out: ark:sup.ark has no supervision of it",
        "9 examples of 4 utterances; 1 could not be used, of 0 no chunk could be made",
    ]
    assert "; split 3 utterances of 256 frames into 9 chunks" in outcome.err


def test_utterances_that_are_too_short_are_counted(cli: Cli) -> None:
    options = ["--frame-subsampling-factor=3", "--num-frames=90"]
    outcome = cli.good("chain-get-egs", *options, "ark:feats.ark", "ark:sup.ark", "ark:egs")
    assert len(_examples("egs")) == 1
    warnings = [f"warning: {key} is left out: no chunk could be made of its {FRAMES[key]} frames" for key in FRAMES]
    assert _lines(outcome.err) == [
        *warnings[:2],
        "warning: extra is left out: ark:sup.ark has no supervision of it",
        "1 examples of 4 utterances; 1 could not be used, of 2 no chunk could be made",
    ]
    options[1] = "--num-frames=120"
    outcome = cli("chain-get-egs", *options, "ark:feats.ark", "ark:sup.ark", "ark:none")
    assert outcome.status == 1
    counts = "0 examples of 4 utterances; 1 could not be used, of 3 no chunk could be made"
    assert _lines(outcome.err)[-1] == f"ark:none: no examples were written: {counts}"
    assert not Path("none").exists()


def test_ivectors_and_weights_of_frames(cli: Cli) -> None:
    more = ["--online-ivectors=ark:ivectors.ark", "--online-ivector-period=10"]
    more.append("--deriv-weights-rspecifier=ark:weights.ark")
    outcome = cli.good("chain-get-egs", *CHUNKS, *more, "ark:feats.ark", "ark:sup.ark", "ark:egs")
    assert _lines(outcome.err) == [
        "warning: utt002 is left out: ark:ivectors.ark has no ivectors of it",
        "warning: extra is left out: ark:ivectors.ark has no ivectors of it",
        "6 examples of 4 utterances; 2 could not be used, of 0 no chunk could be made",
    ]
    for key, example in _examples("egs").items():
        assert [io.name for io in example.inputs] == ["input", "ivector"]
        np.testing.assert_allclose(np.asarray(example.inputs[1].matrix.decode()), float(key[5]), atol=0.01)  # type: ignore[union-attr]
        weights = example.outputs[0].deriv_weights
        assert len(weights) == 10
        assert set(np.asarray(weights).tolist()) <= {0.25, 0.5}  # half where chunks overlap
    outcome = cli.good("chain-get-egs", *CHUNKS, more[2], "ark:feats.ark", "ark:sup.ark", "ark:egs")
    assert _lines(outcome.err)[0] == "warning: utt002 is left out: ark:weights.ark has no deriv-weights of it"


def test_weights_of_a_normalization_graph(cli: Cli) -> None:
    pytest.importorskip("kaldifst")
    files = ["normalization.fst", "ark:feats.ark", "ark:sup.ark"]
    cli.good("chain-get-egs", *CHUNKS, *files, "ark:once")
    cli.good("chain-get-egs", *CHUNKS, "--normalization-fst-scale=0.5", *files, "ark:half")
    cli.good("chain-get-egs", *CHUNKS, *files[1:], "ark:plain")
    for name, scale in (("once", []), ("half", ["--normalization-fst-scale=0.5"])):
        outcome = cli.good("chain-normalize-egs", *scale, "normalization.fst", "ark:plain", "ark:later")
        assert _lines(outcome.err) == ["9 examples normalized; 0 could not be"]
        for one, other in zip(_examples(name).values(), _examples("later").values(), strict=True):
            costs = [example.outputs[0].supervision.fsts[0].cost for example in (one, other)]
            np.testing.assert_allclose(*costs, rtol=1e-5, atol=1e-5)
    assert Path("once").read_bytes() != Path("half").read_bytes()


def test_what_another_graph_does_not_have_is_not_normalized(cli: Cli) -> None:
    pytest.importorskip("kaldifst")
    outcome = cli.good("chain-normalize-egs", CHAIN / "biphone" / "normalization.fst", "ark:egs.ark", "ark:some")
    made, whole = _examples("some"), _examples("egs.ark")
    lines = _lines(outcome.err)
    assert lines[-1] == f"{len(made)} examples normalized; {len(whole) - len(made)} could not be"
    assert lines[:-1] == [
        f"warning: {key} is left out: the normalization graph has none of its sequences"
        for key in whole
        if key not in made
    ]
    assert 0 < len(made) < len(whole)


def test_end_to_end_examples_are_whole_utterances(cli: Cli) -> None:
    pytest.importorskip("kaldifst")
    folder = CHAIN / "e2e"
    with open_matrix_table(f"ark:{folder / 'feats.ark'}") as table, matrix_writer("ark:feats.ark") as writer:
        features = {key: np.asarray(matrix) for key, matrix in table}
        for key in list(features)[:2]:
            writer.write(key, features[key])
        writer.write("extra", features[key])
    lengths = ",".join(str(len(features[key])) for key in list(features)[:2])
    files = [folder / "normalization.fst", "ark:feats.ark", f"ark:{folder / 'graphs.ark'}", folder / "0.trans_mdl"]
    options = ["--frame-subsampling-factor=3", f"--num-frames={lengths}"]
    outcome = cli.good("chain-e2e-get-egs", *options, *files, "ark:egs")
    assert list(_examples("egs")) == list(features)[:2]
    assert all(example.outputs[0].supervision.end_to_end for example in _examples("egs").values())
    assert _lines(outcome.err) == [
        f"warning: extra is left out: ark:{folder / 'graphs.ark'} has no training graph of it",
        "2 examples of 3 utterances; 1 could not be used, of 0 no chunk could be made",
    ]
    key = next(iter(features))
    with TableWriter("ark:feats.ark", lambda writer, matrix: writer.compressed_matrix(matrix)) as packed:
        packed.write(key, compress(features[key], CompressionMethod.ONE_BYTE_AUTO))
    cli.good("chain-e2e-get-egs", *options, "--compress=false", *files, "ark:egs")
    (example,) = _examples("egs").values()
    assert isinstance(example.inputs[0].matrix, np.ndarray), (
        "as Kaldi has it: features that were compressed are decoded"
    )
