"""Training graphs, alignments and what is made of them: Kaldi's lines, run here, give Kaldi's files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nnet3 import load
from nnet3.kaldi_io import Fst, fst_writer, open_fst_table, open_int_vector_table, open_vector_table
from nnet3.model.nnet import AcousticModel, load_transition_model
from tests.chain.graphs.small_hmms import linear
from tests.cli.run_command import Cli
from tests.road_case import ROAD, RoadCase, needs_road, road_cases, run_good

pytest.importorskip("kaldifst")

TEXTS = (
    *("ali.txt", "phones_seq.txt", "phones_frame.txt", "phones_lengths.txt", "phones.ctm", "phones_030.ctm"),
    *("pdf.txt", "post.txt", "tacc.txt", "pdf_acc.txt", "show.txt"),
)
ALIGNED = ("", "_default", "_narrow", "_careful", "_wrong", "_wrong_wide")
TRANSITIONS = ("trans", "trans_floor", "trans_shared")


def _texts(name: Path | str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in Path(name).read_text().splitlines() if line)


def _check_same_graph(ours: Fst, theirs: Fst) -> None:
    """Walks both from the start: graphs whose arcs differ by their labels in each state are equal state by state."""
    assert (ours.num_states, ours.num_arcs) == (theirs.num_states, theirs.num_arcs)
    partner, waiting = {ours.start: theirs.start}, [ours.start]
    while waiting:
        state = waiting.pop()
        other = partner[state]
        assert ours.final[state] == pytest.approx(theirs.final[other], abs=1e-3)
        mine, wanted = (
            sorted(
                (fst.ilabel[a].item(), fst.olabel[a].item(), fst.cost[a].item(), fst.dst[a].item())
                for a in range(fst.offsets[s], fst.offsets[s + 1])
            )
            for fst, s in ((ours, state), (theirs, other))
        )
        assert [arc[:2] for arc in mine] == [arc[:2] for arc in wanted]
        for (_, _, cost, dst), (_, _, wanted_cost, wanted_dst) in zip(mine, wanted, strict=True):
            assert cost == pytest.approx(wanted_cost, abs=1e-3)
            if dst not in partner:
                partner[dst] = wanted_dst
                waiting.append(dst)
            assert partner[dst] == wanted_dst


def _check_alignments(case: RoadCase, suffix: str) -> None:
    ours, theirs = _texts(f"ali{suffix}.txt"), _texts(case.golden(f"ali{suffix}.txt"))
    mine, scores = _texts(f"scores{suffix}.txt"), _texts(case.golden(f"scores{suffix}.txt"))
    assert ours.keys() == theirs.keys() == mine.keys() == scores.keys()
    for key, score in scores.items():
        assert float(mine[key]) == pytest.approx(float(score), rel=1e-4)
    assert ours == theirs


def _check_transitions(case: RoadCase, name: str) -> None:
    ours, theirs = load_transition_model(f"{name}.txt"), load_transition_model(case.golden(f"{name}.txt"))
    np.testing.assert_array_equal(ours.tuples, theirs.tuples)
    np.testing.assert_allclose(ours.log_probs, theirs.log_probs, atol=1e-6)
    model = load(f"{name}.mdl")
    assert isinstance(model, AcousticModel)
    wanted = case.golden(f"{name}.priors.txt").read_text().partition("[")[2].partition("]")[0]
    np.testing.assert_allclose(model.priors.numpy(), np.array(wanted.split(), float), atol=1e-6)


@needs_road
@pytest.mark.parametrize("folder", road_cases("align"), ids=lambda path: path.name)
def test_kaldis_lines_give_kaldis_files(cli: Cli, folder: Path) -> None:
    case = RoadCase(folder)
    case.take("tree", "L.fst", "text.txt", "feats.ark", "phones.txt", "final.mdl", "text_wrong.txt")
    if (folder / "ivectors.ark").exists():
        case.take("ivectors.ark")
    logs = {line: run_good(line).err for line in case.lines("align.cmd") if "|" not in line}
    with open_fst_table("ark:graphs.ark") as made, open_fst_table(f"ark:{case.golden('graphs.ark')}") as expected:
        for (key, ours), (wanted_key, theirs) in zip(made, expected, strict=True):
            assert key == wanted_key
            _check_same_graph(ours, theirs)
    with open_int_vector_table("ark:text.txt") as texts, fst_writer("ark:fsts.ark") as writer:
        for key, words in texts:
            writer.write(key, linear(words.tolist()))
    run_good("compile-train-graphs-fsts tree final.mdl L.fst ark:fsts.ark ark:of_fsts.ark")
    assert Path("of_fsts.ark").read_bytes() == Path("graphs.ark").read_bytes()
    run_good("compile-train-graphs-fsts tree final.mdl L.fst ark:/dev/null ark:of_fsts.ark")
    assert Path("of_fsts.ark").read_bytes() == b""
    for suffix in ALIGNED[1:]:
        _check_alignments(case, suffix)
    ours_scores, theirs_scores = _texts("scores.txt"), _texts(case.golden("scores.txt"))
    assert ours_scores.keys() == theirs_scores.keys()
    for key, score in theirs_scores.items():
        assert float(ours_scores[key]) == pytest.approx(float(score), rel=1e-4)
    assert Path("ali.ark").read_bytes() == case.golden("ali.ark").read_bytes()
    name = "frame_loglikes.txt"
    with open_vector_table(f"ark:{name}") as made, open_vector_table(f"ark:{case.golden(name)}") as expected:
        for (key, mine), (wanted_key, wanted) in zip(made, expected, strict=True):
            assert key == wanted_key
            np.testing.assert_allclose(mine, wanted, rtol=1e-3, atol=1e-3)
    for name in TEXTS:
        assert Path(name).read_text() == case.golden(name).read_text(), name
    for name in TRANSITIONS:
        _check_transitions(case, name)
    _check_logs(case, logs)
    case.check_all_compared()


def _check_logs(case: RoadCase, logs: dict[str, str]) -> None:
    """The numbers that Kaldi's programs say."""
    aligned = {re.search(r"ali(\w*)\.(ark|txt) ", line)[1]: log for line, log in logs.items() if "align-comp" in line}  # type: ignore[index]
    wrong = "\n".join(case.lines("align_wrong.log"))
    for name, suffixes in (("align.log", ("", "_default", "_careful")), ("align_narrow.log", ("_narrow",))):
        _check_summaries("\n".join(case.lines(name)), [aligned[suffix] for suffix in suffixes])
    _check_summaries(wrong, [aligned["_wrong"], aligned["_wrong_wide"]])
    retried = re.findall(r"Retrying utterance (\w+) with beam (\d+)", wrong)
    assert re.findall(r"utterance '(\w+)' is tried again with beam (\d+)", aligned["_wrong"]) == retried
    assert "utterance 'nofeats' left out: there are no features for it" in aligned["_wrong"]
    trained = [log for line, log in logs.items() if "train-transitions" in line]
    said = re.findall(
        r"bjf change is (\S+) per frame over (\S+) frames", "\n".join(case.lines("train_transitions.log"))
    )
    assert [re.findall(r"bjf change is (\S+) per frame over (\S+) frames", log)[0][1] for log in trained] == [
        frames for _, frames in said
    ]
    for log, (gain, _) in zip(trained, said, strict=True):
        assert float(re.findall(r"objf change is (\S+)", log)[0]) == pytest.approx(float(gain), abs=1e-5)


def _check_summaries(kaldi: str, ours: list[str]) -> None:
    likelihoods = re.findall(r"per frame is (\S+) over (\d+) frames", kaldi)
    assert len(likelihoods) == len(ours)
    for log, (likelihood, frames) in zip(ours, likelihoods, strict=True):
        found = re.findall(r"per frame is (\S+) over (\d+) frames", log)[0]
        assert found[1] == frames
        assert float(found[0]) == pytest.approx(float(likelihood), rel=1e-4)
    for pattern in (r"Retried \d+ out of \d+", r"Done \d+, errors on \d+"):
        assert [re.findall(pattern, log)[0] for log in ours] == re.findall(pattern, kaldi)


@needs_road
def test_there_is_no_case_that_no_test_knows() -> None:
    """Each kind is compared file by file: here, in test_lattice_tables, test_lda_of_egs and test_outputs_of_egs."""
    kinds = {path.name.rpartition("_")[0] for path in ROAD.iterdir() if path.is_dir()}
    assert kinds == {"align", "decode", "lda", "priors"}
