"""Every key of every section: its default, values that are just taken and just refused, whether it is arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

from nnet3 import CompileOptions
from nnet3.base.options.run import TrainingSection, parse_dropout
from nnet3.errors import ArgumentError, Nnet3Error
from nnet3.options import Option, declared
from nnet3.train import TrainerOptions
from nnet3.training.runs.data_kinds import KINDS, ArchivesSection
from nnet3.training.runs.settings import SECTIONS

FIRST, LAST = -(2**31), 2**31 - 1
TABLES, TEXTS, TRUTHS = [["ark:a", "scp:b"], "ark:a"], ["a"], [True, False]
#: The default, values that are taken, values that are not.
KEYS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "model.file": ("", TEXTS, [3]),
    "model.seed": (0, [0], [-1, 0.5]),
    "training.epochs": (10, [1], [0]),
    "training.initial_learning_rate": (0.01, [1e-9], [0]),
    "training.final_learning_rate": (0.001, [1e-9], [0]),
    "training.max_param_change": (2.0, [0], [-0.1]),
    "training.momentum": (0.0, [0, 0.999], [-0.1, 1]),
    "training.l2_regularize_factor": (1.0, [0], [-0.1]),
    "training.batchnorm_stats_scale": (0.8, [0, 1], [-0.1, 1.1]),
    "training.backstitch_training_scale": (0.0, [0], [-0.1]),
    "training.backstitch_training_interval": (1, [1], [0]),
    "training.dropout_schedule": ("", ["0,0.5"], ["0.5", True]),
    "training.max_skipped": (100, [0], [-1]),
    "training.min_deriv_time": (FIRST, [FIRST, LAST], [FIRST - 1, LAST + 1]),
    "training.max_deriv_time": (LAST, [FIRST, LAST], [FIRST - 1, LAST + 1]),
    "training.max_deriv_time_relative": (LAST, [FIRST, LAST], [FIRST - 1, LAST + 1]),
    "training.optimization_level": (4, [0, 4], [-1, 5]),
    "training.deriv_truncate_margin": (-1, [-1], [-2]),
    "training.proportional_shrink": (0.0, [0], [-0.1]),
    "training.shrink_value": (1.0, [0.01, 1], [0, 1.01]),
    "training.shrink_saturation_threshold": (0.4, [0, 1], [-0.1, 1.1]),
    "training.seed": (0, [0], [-1]),
    "training.threads": (0, [0], [-1]),
    "training.device": ("cpu", TEXTS, [0]),
    "validation.every": (0, [0], [-1]),
    "combination.models": (20, [0], [-1]),
    "combination.part": (0.5, [0.01, 1], [0, 1.01]),
    "combination.max_objective_evaluations": (30, [1], [0]),
    "lda.estimate": (True, [False], [1]),
    "lda.examples": (10_000, [1], [0]),
    "lda.rand_prune": (0.0, [4.0], [-1.0]),
    "lda.within_class_factor": (0.001, [0.0, 1.0], [-1.0]),
    "lda.max_singular_value": (5.0, [0.0, -1.0], ["x"]),
    "priors.adjust": (True, TRUTHS, [1]),
    "priors.examples": (20_000, [1], [0]),
    "checkpoints.every": (1000, [1], [0]),
    "checkpoints.keep": (2, [1], [0]),
    "distributed.mode": ("all-reduce", ["all-reduce", "averaging"], ["none"]),
    "distributed.round": (400, [1], [0]),
    "distributed.halve_first_round": (False, [True], ["x"]),
    "distributed.num_jobs_initial": (0, [1], [-1]),
    "distributed.num_jobs_final": (0, [1], [-1]),
    "distributed.meeting_timeout": (300.0, [0.1], [0]),
    "distributed.timeout": (1800.0, [0.1], [0]),
    "distributed.check": (False, TRUTHS, [1]),
    "output.folder": ("", TEXTS, [3]),
    "output.print_every": (100, [1], [0]),
    "output.curves": (True, TRUTHS, [1]),
    "output.tensorboard": (True, TRUTHS, [1]),
    "frames.train": ((), TABLES, ["a", 3]),
    "frames.valid": ((), TABLES, ["a", 3]),
    "frames.combine": ((), TABLES, ["a", 3]),
    "frames.minibatch_size": ("64", [1, "1:64", "as-it-is"], [0, "many"]),
    "frames.valid_minibatch_size": ("1:64", [1, "1:64", "as-it-is"], [0, "many"]),
    "frames.shuffle_buffer": (5000, [0], [-1]),
    "frames.on_damage": ("error", ["error", "skip"], ["stop"]),
    "frames.ahead": (4, [1], [0]),
    "frames.train_outputs": ((), ["output"], [3]),
    "frames.train_weights": ((), [[0, 1.5]], [[-1], "1", 2]),
    "frames.valid_outputs": ((), ["output"], [3]),
    "frames.combine_outputs": ((), ["output"], [3]),
    "chain.frame_shifts": (1, [1], [0]),
    "LF-MMI.den_fst": ("", TEXTS, [3]),
    "LF-MMI.den_fsts": ((), TEXTS, [3]),
    "LF-MMI.leaky_hmm_coefficient": (0.1, [1e-9], [0, 1]),
    "LF-MMI.xent_regularize": (0.1, [0], [-0.1]),
    "LF-MMI.l2_regularize": (0.0, [0], [-0.1]),
    "LF-MMI.out_of_range_regularize": (0.01, [0], [-0.1]),
    "LF-MMI.lwf_den_scale": (0.0, [0], [-0.1]),
    "LF-MMI.apply_deriv_weights": (False, TRUTHS, [1]),
    "LF-MMI.insist_on_den_fst": (False, TRUTHS, [1]),
}
ALL_SECTIONS = {
    **SECTIONS, "frames": KINDS.data["frames"].section, "chain": KINDS.data["chain"].section,
    "LF-MMI": KINDS.objective["chain"].section,
}  # fmt: skip
WITHOUT_EFFECT_ON_PARAMETERS = {
    "lda.estimate",
    "lda.examples",
    "lda.rand_prune",
    "lda.within_class_factor",
    "lda.max_singular_value",
    "training.optimization_level", "training.max_skipped", "validation.every", "checkpoints.every", "checkpoints.keep",
    "distributed.meeting_timeout",
    "distributed.timeout", "distributed.check", "output.folder", "output.print_every", "output.curves",
    "output.tensorboard", "frames.valid", "frames.valid_outputs", "frames.ahead", "priors.adjust", "priors.examples",
}  # fmt: skip


def _option(name: str) -> Option:
    section, key = name.split(".")
    return {item.name: item for item in declared(ALL_SECTIONS[section])}[key]


@pytest.mark.parametrize("name", KEYS)
def test_default_and_bounds(name: str) -> None:
    default, taken, refused = KEYS[name]
    item = _option(name)
    assert item.program_default == default
    assert type(item.program_default) is type(default)
    for value in taken:
        item.kind.checked(value)
    for value in refused:
        with pytest.raises((ValueError, Nnet3Error)):
            item.kind.checked(value)
    assert item.steers == (name not in WITHOUT_EFFECT_ON_PARAMETERS)
    assert item.help


def test_no_key_is_left_out() -> None:
    found = {f"{name}.{field.name}" for name, s in ALL_SECTIONS.items() for field in declared(s)}
    assert {name for name in found if name not in KEYS and f"frames.{name.split('.')[1]}" not in KEYS} == set()


def test_deriv_truncate_margin() -> None:
    """As Kaldi's scripts compute derivative times from it."""
    for margin in (0, 8):
        section = TrainingSection(deriv_truncate_margin=margin)
        times = {"min_deriv_time": -margin - 13, "max_deriv_time": None, "max_deriv_time_relative": margin + 9}
        assert section.deriv_times_for(left_context=13, right_context=9) == times
    assert TrainerOptions(**TrainingSection().deriv_times_for(13, 9)).compile_options() == CompileOptions()


def test_no_dropout_schedule() -> None:
    assert parse_dropout(" ").points == ()
    assert len(parse_dropout("0,0.5 lstm*=0,0.1").points) == 2


@pytest.mark.parametrize("key", ["minibatch_size", "valid_minibatch_size"])
def test_sizes_of_minibatches_are_rules(key: str) -> None:
    assert getattr(ArchivesSection(**{key: "as-it-is"}), key) == "as-it-is"
    with pytest.raises(ArgumentError, match=rf"^{key} .*a rule of minibatch sizes is a list of sizes"):
        ArchivesSection(**{key: "some"})
