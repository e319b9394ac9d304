"""Every file of the golden data is compared by a test, is what a compared one is made from, or has a reason here."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.shared_data import GOLDEN, SMALL_SET, needs_shared

TESTS = Path(__file__).parent

#: Of each set: the files that a test compares, with the place of the test.
COMPARED = {
    "component": {
        "components/test_golden.py": (
            *("component.txt", "component.bin", "info.txt", "meta.json", "arrays.npz"),
            *("gradient.txt", "updated.txt", "component_stats.txt"),
        )
    },
    "random": {
        "networks/test_golden_networks.py": ("request.json", "arrays.npz", "gradient.raw", "updated.raw"),
        "nnet/test_info.py": ("info.txt", "context.json", "config_*.txt"),
        "nnet/test_model_file.py": ("model.raw", "model.txt"),
    },
    "recipe": {
        "networks/test_golden_networks.py": ("request.json", "arrays.npz", "gradient.raw", "updated.raw"),
        "nnet/test_info.py": ("info.txt", "context.json", "config_*.txt"),
        "nnet/test_model_file.py": ("model.raw",),
    },
    "decode": {
        "inference/test_golden_decode.py": ("model.raw", "feats.ark", "ivectors.ark", "compute.ark", "compute.cmd"),
        "inference/test_batch.py": ("batch.ark",),
        "inference/test_golden_streams.py": ("looped.ark",),
    },
    "train": {
        "train/test_golden_train.py": (
            *("start.raw", "merged.ark", "plain.raw", "momentum.raw", "backstitch.raw"),
            *("train_plain.log", "train_momentum.log", "train_backstitch.log"),
        ),
        "train/test_compute_prob.py": ("prob.log",),
        "examples/test_merging.py": ("egs.ark", "merged.ark"),
    },
    "xvector": {
        "train/test_golden_train.py": ("start.raw", "merged.ark", "trained.raw", "train.log"),
        "inference/test_xvector.py": (
            *("model.raw", "feats.ark", "batched_100.*", "chunk_100.*", "chunk_100_min_60.*", "chunk_all.*"),
            *("defaults.*", "nopad_100.*", "nopad_all.*"),
        ),
        "examples/test_xvector_making.py": ("ranges", "feats.ark", "egs.ark"),
        "examples/test_merging.py": ("egs.ark", "merged.ark"),
    },
    "mdl": {
        "nnet/test_acoustic_model.py": ("final.mdl", "final.txt.mdl"),
        "hmm/test_transition_model.py": ("transition_model.json",),
    },
    "chain": {
        "hmm/test_tree.py": ("tree", "topo"),
        "chain/test_objective.py": ("arrays.npz", "objf.json"),
        "chain/test_example.py": ("egs.ark", "egs_raw.ark", "merged.ark", "sup.ark", "first_eg.txt", "egs.cmd"),
        "chain/test_golden_runs.py": (
            *("start.raw", "plain.raw", "full.raw", "backstitch.raw", "den.fst"),
            *("train_plain.cmd", "train_full.cmd", "train_backstitch.cmd"),
            *("train_plain.log", "train_full.log", "train_backstitch.log"),
        ),
        "cli/test_chain_egs.py": ("copy.cmd", "egs_shift*.ark"),
        "chain/graphs/test_phone_lm.py": ("phones.ark", "phone_lm.fst", "graph.cmd"),
        "chain/graphs/test_denominator_fst.py": ("den.fst",),
        "chain/graphs/test_normalization.py": ("normalization.fst",),
        "chain/graphs/test_phone_hmms.py": ("0.trans_mdl", "ali.ark"),
        "chain/test_making.py": (
            *("sup.ark", "egs.ark", "egs_raw.ark", "egs.cmd", "graphs.ark", "feats.ark", "ivectors.ark"),
            *("lengths.ark", "phone_lat.ark", "deriv_weights.ark"),
        ),
        "kaldi_io/test_fst_file.py": ("*.fst", "*.fst.txt"),
        "cli/test_egs_training.py": ("prob.cmd", "prob_*.log", "combine.cmd", "combine.log", "combined.raw"),
    },
    "xconfig": {"xconfig/test_golden.py": ("network.xconfig", "final.config")},
    "bench": {
        "xconfig/test_golden.py": ("network.xconfig", "final.config"),
        "nnet/test_picture.py": ("*.mat",),
    },
}

#: Of each set: why no test compares the other files.
NOT_COMPARED = {
    "random": {"computation*.txt.gz": "Kaldi's programs, to look at: they are not to be matched"},
    "recipe": {
        "computation*.txt.gz": "Kaldi's programs, to look at: they are not to be matched",
        "origin.txt": "a note",
        "*.mat": "what configs name",
    },
    "decode": {
        "looped.cmd": "no command line: a note of how looped.ark was made",
    },
    "train": {
        "net.*config": "what start.raw was made from, at random",
    },
    "mdl": {"config_0.txt": "what final.mdl was made from, at random"},
    "chain": {
        "meta.json": "how it was made",
        "net.config": "what start.raw was made from, at random",
        "text.txt": "what graphs.ark was made from",
        "weights.txt": "by which Kaldi multiplied the weights of egs.ark",
    },
    "xvector": {
        "net.config": "what start.raw was made from, at random",
        "train.cmd": "command lines of what the tests call in Python",
    },
    "xconfig": {"origin.txt": "a note"},
    "bench": {"origin.txt": "a note"},
}


def _sets(folder: Path = GOLDEN) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


@pytest.mark.parametrize("name", _sets())
def test_golden_set_is_compared_or_has_reasons(name: str) -> None:
    compared = [pattern for patterns in COMPARED.get(name, {}).values() for pattern in patterns]
    reasons = NOT_COMPARED.get(name, {})
    files = {file.name for file in (GOLDEN / name).glob("*/*")}
    assert files
    unknown = [file for file in sorted(files) if not any(fnmatch(file, p) for p in (*compared, *reasons))]
    assert not unknown, f"golden/{name} has files that no test compares, and no reason is given for: {unknown}"
    for pattern, reason in reasons.items():
        print(f"not compared: golden/{name}/*/{pattern}: {reason}")


def test_the_tests_that_compare_are_there() -> None:
    places = {place for tests in COMPARED.values() for place in tests}
    assert [place for place in sorted(places) if "golden" not in (TESTS / place).read_text().lower()] == []


@needs_shared
def test_small_set_is_a_part_of_the_whole() -> None:
    files = [path.relative_to(SMALL_SET) for path in sorted(SMALL_SET.glob("*/*/*"))]
    assert len(files) > 100
    assert [str(file) for file in files if (SMALL_SET / file).read_bytes() != (GOLDEN / file).read_bytes()] == []


def test_small_set_is_small_and_has_each_kind() -> None:
    assert set(_sets(SMALL_SET)) == {"component", "random", "train", "chain", "mdl", "xconfig"}
    assert sum(path.stat().st_size for path in SMALL_SET.rglob("*") if path.is_file()) < 600_000


@needs_shared
def test_lists_name_nothing_that_is_not_there() -> None:
    assert set(COMPARED) | set(NOT_COMPARED) == set(_sets())
    named = {(name, pattern) for name, tests in COMPARED.items() for patterns in tests.values() for pattern in patterns}
    named |= {(name, pattern) for name, reasons in NOT_COMPARED.items() for pattern in reasons}
    assert [
        f"{name}/*/{pattern}" for name, pattern in sorted(named) if not list((GOLDEN / name).glob(f"*/{pattern}"))
    ] == []


@pytest.mark.parametrize(("name", "test"), [(name, test) for name, tests in COMPARED.items() for test in tests])
def test_tests_that_are_named_go_through_the_whole_set(name: str, test: str) -> None:
    text = (TESTS / test).read_text()
    assert f'golden_cases("{name}"' in text or f'"{name}/*/' in text or f'"{name}"' in text or '"*/*/' in text
