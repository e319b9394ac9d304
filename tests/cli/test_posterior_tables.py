"""Posteriors scaled, summed and weighted: small tables by hand, and random ones against loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3 import load_transition_model
from nnet3.cli.posterior_tables import summed
from nnet3.kaldi_io import Posterior, open_matrix_table, open_posterior_table
from nnet3.training.examples.c_random import CRandom
from tests.cli.run_command import Cli
from tests.seeds import RANDOM
from tests.shared_data import GOLDEN

MDL = GOLDEN / "mdl" / "1" / "final.mdl"
Frames = list[list[tuple[int, float]]]


@pytest.fixture
def posts(cli: Cli) -> Cli:
    Path("post").write_text("u1 [ 1 0.5 3 0.5 ] [ 3 1 ] [ 1 1 ]\nu2 [ 2 1 ]\n")
    Path("weights").write_text("u1 [ 1 0 0.5 ]\n")
    Path("scales").write_text("u1 2\n")
    return cli


def test_scales(posts: Cli) -> None:
    twice = "u1 [ 1 1 3 1 ] [ 3 2 ] [ 1 2 ] \n"
    assert posts.good("copy-post", "--scale=2", "ark:post", "ark,t:-").out == twice + "u2 [ 2 2 ] \n"
    assert posts.good("scale-post", "ark:post", "2", "ark,t:-").out == twice + "u2 [ 2 2 ] \n"
    outcome = posts.good("scale-post", "ark:post", "ark:scales", "ark,t:-")
    assert outcome.out == twice
    assert "'u2' left out: ark:scales has no scale for it" in outcome.err
    assert posts.good("scale-post", "ark:post", "0", "ark,t:-").out == "u1 [ ] [ ] [ ] \nu2 [ ] \n"
    assert posts.good("scale-post", "ark:post", "-2", "ark,t:-").out.endswith("u2 [ 2 -2 ] \n")
    for scale in ("half", "nan", "inf"):
        outcome = posts("scale-post", "ark:post", scale, "ark,t:-")
        assert (outcome.status, f"'{scale}': expected a scale, or a table of scales" in outcome.err) == (1, True)


def test_weights_of_frames(posts: Cli) -> None:
    outcome = posts.good("weight-post", "ark:post", "ark:weights", "ark,t:-")
    assert outcome.out == "u1 [ 1 0.5 3 0.5 ] [ ] [ 1 0.5 ] \n"
    Path("short").write_text("u1 [ 2 ]\nu2 [ 1 1 1 1 ]\n")
    outcome = posts.good("weight-post", "ark:post", "ark:short", "ark,t:-")
    assert outcome.out == "u1 [ 1 1 3 1 ] [ ] [ ] \n"
    assert "it has 1 frames and 4 weights" in outcome.err
    assert posts("weight-post", "--length-tolerance=1", "ark:post", "ark:short", "ark,t:-").status == 1
    assert posts.good("post-to-weights", "ark:post", "ark,t:-").out == "u1  [ 1 1 1 ]\nu2  [ 1 ]\n"


def test_sums_of_two_tables(posts: Cli) -> None:
    Path("other").write_text("u1 [ 3 0.25 2 1 ] [ 1 4 ] [ 1 -1 ]\nu2 [ 2 1 ] [ 2 1 ]\n")
    outcome = posts.good("sum-post", "ark:post", "ark:other", "ark,t:-")
    assert outcome.out == "u1 [ 1 0.5 2 1 3 0.75 ] [ 1 4 3 1 ] [ ] \n"
    assert "it has 1 frames in ark:post, and 2 in ark:other" in outcome.err
    assert "Processed 3 frames; in 1 of them no id was in both." in outcome.err
    dropped = posts.good("sum-post", "--drop-frames=true", "--scale2=2", "ark:post", "ark:other", "ark,t:-")
    assert dropped.out == "u1 [ 1 0.5 2 2 3 1 ] [ ] [ 1 -1 ] \n"
    kept = posts.good("sum-post", "--merge=false", "ark:post", "ark:other", "ark,t:-")
    assert kept.out == "u1 [ 1 0.5 2 1 3 0.25 3 0.5 ] [ 1 4 3 1 ] [ 1 -1 1 1 ] \n"


def _random(frames: int) -> Frames:
    """Ids of a frame differ, in any order."""
    return [[(int(k), float(np.float32(RANDOM.normal()))) for k in RANDOM.permutation(4)[: RANDOM.integers(4)]]
            for _ in range(frames)]  # fmt: skip


def _posterior(frames: Frames) -> Posterior:
    ids, weights = np.array([pair for frame in frames for pair in frame], float).reshape(-1, 2).T
    return Posterior(
        np.append(0, np.cumsum([len(f) for f in frames])), ids.astype(np.int32), weights.astype(np.float32)
    )


def test_sums_frame_by_frame() -> None:
    first, second = _random(30), _random(30)
    found, disjoint = summed(_posterior(first), _posterior(second), merge=True, drop_disjoint=False)
    apart = 0
    for frame, (one, other) in enumerate(zip(first, second, strict=True)):
        ids = sorted({*dict(one), *dict(other)})
        expected = [dict(one).get(k, 0) + dict(other).get(k, 0) for k in ids]
        part = slice(found.indptr[frame], found.indptr[frame + 1])
        assert found.ids[part].tolist() == ids
        assert found.weights[part] == pytest.approx(expected, abs=1e-6)
        apart += not {*dict(one)} & {*dict(other)}
    assert disjoint == apart > 0


def test_weights_of_silence(posts: Cli) -> None:
    model = load_transition_model(MDL)
    phone = {int(model.phone(k)): int(k) for k in model.transition_ids[::-1]}  # the first id of each phone
    (quiet, a), (_, b) = list(phone.items())[:2]
    Path("in").write_text(f"u [ {a} 0.5 {b} 0.5 ] [ {a} 1 ] [ {b} 1 ] [ ]\n")
    weighted = posts.good("weight-silence-post", "0.5", str(quiet), MDL, "ark:in", "ark,t:-")
    assert weighted.out == f"u [ {a} 0.25 {b} 0.5 ] [ {a} 0.5 ] [ {b} 1 ] [ ] \n"
    without = posts.good("weight-silence-post", "0", str(quiet), MDL, "ark:in", "ark,t:-")
    assert without.out == f"u [ {b} 0.5 ] [ ] [ {b} 1 ] [ ] \n"
    whole = posts.good("weight-silence-post", "--distribute=true", "0.5", str(quiet), MDL, "ark:in", "ark,t:-")
    assert whole.out == f"u [ {a} 0.375 {b} 0.375 ] [ {a} 0.5 ] [ {b} 1 ] [ ] \n"
    Path("less").write_text(f"u [ {a} -0.5 {b} 1 ]\n")
    outcome = posts("weight-silence-post", "--distribute=true", "0.5", str(quiet), MDL, "ark:less", "ark,t:-")
    assert (outcome.status, "weights below 0 cannot be distributed" in outcome.err) == (1, True)
    unchanged = posts.good("weight-silence-post", "0", "", MDL, "ark:in", "ark,t:-")
    assert "there are no silence phones" in unchanged.err
    assert posts("weight-silence-post", "0", "a:b", MDL, "ark:in", "ark,t:-").status == 1
    Path("in").write_text("u [ 9999 1 ]\n")
    assert posts("weight-silence-post", "0", str(quiet), MDL, "ark:in", "ark,t:-").status == 1


def test_posteriors_of_log_probabilities(cli: Cli) -> None:
    rows = np.log(np.float32([[0.9, 0.08, 0.02], [0.05, 0.05, 0.9]]))
    Path("in").write_text("u [\n" + "\n".join(" ".join(map(repr, row.tolist())) for row in rows) + " ]\n")
    cli.good("logprob-to-post", "--random-prune=false", "--min-post=0.06", "ark:in", "ark:sure.ark")
    cli.good("logprob-to-post", "--min-post=0.06", "ark:in", "ark:drawn.ark")
    cli.good("logprob-to-post", "--min-post=0", "ark:in", "ark:all.ark")
    with open_posterior_table("ark:all.ark") as every:
        assert dict(every)["u"].ids.tolist() == [0, 1, 2, 0, 1, 2]
    with open_matrix_table("ark:in") as table, open_posterior_table("ark:sure.ark") as sure:
        (_, read), (_, found) = next(iter(table)), next(iter(sure))
    assert (found.indptr.tolist(), found.ids.tolist()) == ([0, 2, 3], [0, 1, 2])
    np.testing.assert_allclose(found.weights, np.exp(read)[[0, 0, 1], [0, 1, 2]], rtol=1e-6)
    draws, expected = CRandom(1), []
    for frame, row in enumerate(np.exp(read)):
        for column, p in enumerate(row):
            if p >= np.float32(0.06):
                expected.append((frame, column, p))
            elif p / np.float32(0.06) >= draws.uniform():
                expected.append((frame, column, np.float32(0.06)))
    with open_posterior_table("ark:drawn.ark") as drawn:
        (_, found) = next(iter(drawn))
    frames = np.repeat(np.arange(2), np.diff(found.indptr))
    triples = list(zip(frames.tolist(), found.ids.tolist(), found.weights.tolist(), strict=True))
    np.testing.assert_allclose(triples, expected, rtol=1e-6)
