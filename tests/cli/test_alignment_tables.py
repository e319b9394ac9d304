"""What is made of alignments; Kaldi's files are compared by test_aligning.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3 import TransitionModel, load_transition_model
from nnet3.cli.files import save
from nnet3.kaldi_io import load_vector
from tests.cli.run_command import Cli
from tests.shared_data import GOLDEN, SHARED, needs_shared

MDL = GOLDEN / "mdl" / "1" / "final.mdl"


@pytest.fixture
def alignment(cli: Cli) -> list[int]:
    """Some transition-ids and an utterance without frames, as `ali`."""
    Path("ali").write_text("a 2 1 1 4 3\nempty\n")
    return [2, 1, 1, 4, 3]


def test_pdfs_posteriors_and_counts(cli: Cli, alignment: list[int]) -> None:
    model = load_transition_model(MDL)
    pdfs = " ".join(map(str, model.pdf(alignment)))
    assert cli.good("ali-to-pdf", MDL, "ark:ali", "ark,t:-").out == f"a {pdfs} \nempty \n"
    cli.good("ali-to-post", "ark:ali", "ark:post")
    cli.good("post-to-tacc", MDL, "ark:post", "tacc")
    assert load_vector("tacc")[:6].tolist() == [0, 2, 1, 1, 1, 0]
    cli.good("post-to-tacc", "--per-pdf=true", MDL, "ark:post", "pdfs")
    assert load_vector("pdfs").sum() == 5
    Path("ali").write_text(f"a {model.num_transition_ids}\n")
    cli.good("ali-to-post", "ark:ali", "ark:post")
    cli.good("post-to-tacc", "--per-pdf=true", MDL, "ark:post", "pdfs")
    assert load_vector("pdfs").sum() == 0


def test_phones(cli: Cli, alignment: list[int]) -> None:
    phone = load_transition_model(MDL).phone(2)
    assert cli.good("ali-to-phones", "--per-frame", MDL, "ark:ali", "ark,t:-").out == f"a {f'{phone} ' * 5}\nempty \n"
    out = cli.good("ali-to-phones", "--ctm-output", "--frame-shift=0.02", MDL, "ark:ali", "-").out
    assert out.startswith(f"a 1 0.00 0.{10 if out.count(chr(10)) == 1 else ''}")
    assert cli("ali-to-phones", "--ctm-output", "--per-frame", MDL, "ark:ali", "-").status == 2
    Path("phones.txt").write_text("".join(f"ph{n} {n}\n" for n in range(200)))
    first, second, third, *_ = cli.good("show-alignments", "phones.txt", MDL, "ark:ali").out.split("\n")
    assert first.startswith("a  [ 2 1 1 ")
    assert second.startswith(f"a  ph{phone} ")
    assert (third, len(first)) == ("", len(second))
    Path("phones.txt").write_text("none 0\n")
    assert cli.good("show-alignments", "phones.txt", MDL, "ark:ali").out.splitlines()[1].strip() == "a"


@needs_shared
def test_times_between_two_decimals(cli: Cli) -> None:
    """0.575 s and 0.175 s are just below that in float32; Kaldi writes so."""
    case = SHARED / "road" / "align_1"
    times = ["--ctm-output", "--frame-shift=0.0125"]
    lines = cli.good("ali-to-phones", *times, str(case / "final.mdl"), f"ark:{case}/ali.ark", "-").out.splitlines()
    assert {"utt002 1 0.57 0.21 5", "utt002 1 0.79 0.17 5"} < set(lines)


@pytest.mark.parametrize("verb", ["ali-to-pdf", "ali-to-phones"])
def test_numbers_that_the_model_lacks(cli: Cli, verb: str) -> None:
    Path("ali").write_text("a 1 99999\n")
    outcome = cli(verb, MDL, "ark:ali", "ark:out")
    assert outcome.status == 1
    assert "nnet3: ark:ali: a: a transition-id must be in 1 .. " in outcome.err
    assert not Path("out").exists()


def test_a_floor_above_one_is_no_probability(cli: Cli, alignment: list[int]) -> None:
    outcome = cli("am-train-transitions", "--transition-floor=2", MDL, "ark:ali", "out.mdl")
    assert (outcome.status, "--transition-floor" in outcome.err) == (2, True)


def test_what_a_transition_model_has(cli: Cli) -> None:
    model = load_transition_model(MDL)
    lines = cli.good("transition-info", MDL).out.splitlines()
    counts = len(model.phones), model.num_pdfs, model.num_transition_ids, model.num_transition_states
    assert [int(line.split()[-1]) for line in lines] == list(counts)
    assert lines[1] == f"number of pdfs {model.num_pdfs}"


def test_probabilities_are_rounded_as_those_of_c(cli: Cli) -> None:
    model = load_transition_model(MDL)
    log_probs = model.log_probs.copy()
    log_probs[1:] = np.float32(-0.98043865)
    save("other.mdl", False, TransitionModel(model.topology, model.tuples, log_probs).write_to)
    Path("phones.txt").write_text("".join(f"p{k} {k}\n" for k in range(model.num_phones + 1)))
    ids = [line for line in cli.good("show-transitions", "phones.txt", "other.mdl").out.splitlines() if " p = " in line]
    assert {line.split()[5] for line in ids} == {"0.375147"}


def test_transitions_are_shown(cli: Cli) -> None:
    model = load_transition_model(MDL)
    Path("phones.txt").write_text("".join(f"p{k} {k}\n" for k in range(model.num_phones + 1)))
    Path("counts").write_text(" [ " + " ".join(f"{pdf}.5" for pdf in range(model.num_pdfs)) + " ]\n")
    lines = cli.good("show-transitions", "phones.txt", MDL, "counts").out.splitlines()
    states = [line for line in lines if line.startswith("Transition-state ")]
    ids = [line for line in lines if line.startswith(" Transition-id = ")]
    assert (len(states), len(ids)) == (model.num_transition_states, model.num_transition_ids)
    assert len(lines) == len(states) + len(ids)
    phone, hmm_state, pdf, _ = model.tuples[0].tolist()
    assert states[0] == f"Transition-state 1: phone = p{phone} hmm-state = {hmm_state} pdf = {pdf}"
    for number, line in enumerate(ids, 1):
        words = line.split()
        assert words[2] == str(number)
        assert float(words[5]) == pytest.approx(np.exp(model.log_prob(number)), rel=1e-5)
        assert words[10] == f"{model.pdf(number) + 0.5:g}"
        assert words[-1].endswith("self-loop]") == model.is_self_loop(number)
    assert "count of" not in cli.good("show-transitions", "phones.txt", MDL).out
    Path("counts").write_text(" [ 1 ]\n")
    assert cli("show-transitions", "phones.txt", MDL, "counts").status == 1
