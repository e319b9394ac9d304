"""Options of classes on command lines: their defaults are Kaldi's, their bounds hold, and each gets to its object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import click
import pytest

from nnet3.base.text.values import Boolean, Integer, Integers, Number, Text, above, at_least, choice, within
from nnet3.cli.declared import one, takes
from nnet3.cli.options import KALDI_BOOL, click_type, integer
from nnet3.errors import Nnet3Error
from nnet3.options import Options, TrainerOptions, option
from tests.cli.check_options import check_ignored, check_options

TRAINING: dict[str, tuple[Any, Any]] = {
    "--srand": (0, None),
    "--zero-component-stats": (True, None),
    "--store-component-stats": (True, None),
    "--print-interval": (100, 1),
    "--max-param-change": (2.0, 0),
    "--momentum": (0.0, 0),
    "--l2-regularize-factor": (1.0, 0),
    "--batchnorm-stats-scale": (0.8, 0),
    "--backstitch-training-scale": (0.0, 0),
    "--backstitch-training-interval": (1, 1),
    "--max-skipped": (100, 0),
}
CHAIN: dict[str, tuple[Any, Any]] = {
    "--leaky-hmm-coefficient": (1e-5, None),
    "--xent-regularize": (0.0, 0),
    "--l2-regularize": (0.0, 0),
    "--out-of-range-regularize": (0.01, 0),
    "--lwf-den-scale": (0.0, 0),
}
CHUNKS: dict[str, tuple[Any, Any]] = {
    "--left-context": (0, 0),
    "--right-context": (0, 0),
    "--left-context-initial": (-1, None),
    "--right-context-final": (-1, None),
    "--num-frames": ((1,), None),
    "--num-frames-overlap": (0, 0),
    "--frame-subsampling-factor": (1, 1),
}
INPUTS: dict[str, tuple[Any, Any]] = {
    **CHUNKS,
    "--online-ivectors": (None, None),
    "--ivectors": (None, None),
    "--online-ivector-period": (1, 1),
    "--compress": (True, None),
    "--length-tolerance": (100, 0),
    "--srand": (0, None),
}
TOLERANCE = {"--targets-length-tolerance": (2, 0)}
SCALE = {"--normalization-fst-scale": (1.0, 0)}
TABLES: list[tuple[str, dict[str, tuple[Any, Any]]]] = [
    ("train", TRAINING),
    ("chain-train", TRAINING | CHAIN),
    ("chain-compute-prob", CHAIN),
    ("chain-combine", CHAIN),
    ("get-egs", INPUTS | TOLERANCE | {"--pdf-alignments": (False, None)}),
    ("get-egs-dense-targets", INPUTS | TOLERANCE),
    ("chain-get-egs", INPUTS | SCALE | {"--supervision-length-tolerance": (1, 0), "--long-key": (False, None)}),
    ("chain-e2e-get-egs", INPUTS | SCALE),
]


@pytest.mark.parametrize(("verb", "table"), TABLES, ids=[verb for verb, _ in TABLES])
def test_defaults_and_bounds(verb: str, table: dict[str, tuple[Any, Any]]) -> None:
    check_options(verb, table)


@dataclass(frozen=True)
class Inner(Options):
    size: int = option(4, Integer(at_least(2)), "How many.", flag="n")


@dataclass(frozen=True)
class Outer(Options):
    given: ClassVar[int] = 3

    inner: Inner = field(default_factory=Inner)
    rate: float = option(0.5, Number(above(0)), "How fast.")
    names: tuple[int, ...] = option((1, 2), Integers(), "Which.", metavar="A,B")
    word: str = option("some", Text(), "What.", program_default="other")
    secret: bool = option(False, Boolean(), "Nobody is told.", hidden=True)


def _given(*words: str, **settings: Any) -> tuple[Any, int]:
    @click.command()
    @takes("options", Outer, **settings)
    @click.option("--own", type=int, default=7)
    def command(options: Outer, own: int) -> tuple[Any, int]:
        return options, own

    found: tuple[Any, int] = command.main([*words], standalone_mode=False)
    return found


def test_an_object_is_made_of_what_is_given() -> None:
    assert _given() == (Outer(word="other"), 7)
    words = ["--n=3", "--rate=2", "--names=5", "--word=", "--secret=true", "--own=8"]
    assert _given(*words) == (Outer(Inner(3), 2.0, (5,), "", True), 8)
    assert _given("--rate=2", omit=("size", "word")) == (Outer(rate=2.0), 7)
    with pytest.raises(click.NoSuchOption):
        _given("--n=3", omit=("size",))


@pytest.mark.parametrize(
    ("about", "message", "typed"),
    [
        (
            "max_size",
            "max_size is above the size, and big_word is short",
            "--a.max-size is above the size, and --a.word",
        ),
        ("size", "size and max_size differ, not x.max_size", "--a.size and --a.max-size differ, not x.max_size"),
        ("", "max_size is above the size", "max_size is above the size"),
        ("other", "max_size is above the size", "max_size is above the size"),
    ],
)
def test_errors_about_options_name_them_as_typed(about: str, message: str, typed: str) -> None:
    @dataclass(frozen=True)
    class Sizes(Options):
        size: int = option(1, Integer(), "n")
        max_size: int = option(2, Integer(), "n")
        big_word: str = option("", Text(), "w", flag="word")

    @click.command()
    @takes("options", Sizes, prefix="a.")
    def command(options: Sizes) -> None:
        error = Nnet3Error(message)
        error.option = about
        raise error

    with pytest.raises(Nnet3Error) as caught:
        command.main([], standalone_mode=False)
    assert str(caught.value).startswith(typed)


def test_errors_about_two_options_name_both_as_typed() -> None:
    @dataclass(frozen=True)
    class Beams(Options):
        beam: float = option(1.0, Number(), "b")
        retry_beam: float = option(2.0, Number(), "r")

        def conflicts(self) -> Iterator[tuple[str, str]]:
            yield "retry_beam", f"retry_beam must be more than beam, {self.beam:g}, got {self.retry_beam:g}"

    @click.command()
    @takes("options", Beams)
    def command(options: Beams) -> None: ...

    with pytest.raises(Nnet3Error, match=r"^--retry-beam must be more than --beam, 1, got 2$"):
        command.main([], standalone_mode=False)


def test_all_options_of_the_trainer_are_given() -> None:
    @click.command()
    @takes("options", TrainerOptions)
    def command(options: TrainerOptions) -> TrainerOptions:
        return options

    words = ["--srand=3", "--zero-component-stats=false", "--store-component-stats=false", "--print-interval=7"]
    words += ["--max-param-change=1.5", "--l2-regularize-factor=0.5", "--batchnorm-stats-scale=0.7"]
    words += ["--backstitch-training-scale=0.3", "--backstitch-training-interval=4", "--max-skipped=5"]
    words += ["--optimization.min-deriv-time=-2", "--optimization.max-deriv-time=9"]
    words += ["--optimization.max-deriv-time-relative=4", "--optimization.level=4"]
    assert command.main(words, standalone_mode=False) == TrainerOptions(
        seed=3,
        zero_component_stats=False,
        store_component_stats=False,
        print_interval=7,
        max_param_change=1.5,
        l2_regularize_factor=0.5,
        batchnorm_stats_scale=0.7,
        backstitch_training_scale=0.3,
        backstitch_training_interval=4,
        max_skipped=5,
        min_deriv_time=-2,
        max_deriv_time=9,
        max_deriv_time_relative=4,
        optimization_level=4,
    )
    assert command.main([], standalone_mode=False) == TrainerOptions()


def test_the_help_shows_bounds_and_defaults() -> None:
    @click.command()
    @takes("options", Outer)
    def command(options: Outer) -> None:
        pass

    text = " ".join(command.get_help(click.Context(command)).partition("Options:")[2].split())
    assert text == (
        "--n INTEGER RANGE How many. [default: 4; x>=2] --rate FLOAT How fast. [default: 0.5] "
        "--names A,B Which. [default: 1,2] --word TEXT What. [default: other] --help Show this message and exit."
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Boolean(), "boolean"),
        (Integer(), "integer"),
        (Integer(within(1, 5)), "integer range"),
        (Number(at_least(0)), "float"),
        (Text(), "text"),
        (choice("a", "b"), "text"),
        (Text(parse=int), "text"),
        (Integers(), "text"),
    ],
)
def test_names_of_types(kind: Any, name: str) -> None:
    assert click_type(kind).name == name


def test_text_of_any_form_is_clicks() -> None:
    assert click_type(Text()) is click.STRING
    assert click_type(Boolean()) is KALDI_BOOL
    assert click_type(choice("a", "b")) is not click.STRING
    assert click_type(Text(parse=int)) is not click.STRING


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Integer(within(1, 5)), "6", "6 is not in the range 1<=x<=5."),
        (Integer(above(0)), "0", "it must be > 0, got 0."),
        (Integer(at_least(0)), str(2**31), "it must be an integer that fits 32 bits, got 2147483648."),
        (Integer(), "x", "it must be an integer, got 'x'."),
        (Number(), "nan", "it must be a finite number, got 'nan'."),
        (Number(at_least(0)), "-1", "it must be >= 0, got -1.0."),
        (choice("a", "b"), "c", "it must be one of a, b, got c."),
        (Integers(), "1,x", "it must be a list of integers, got '1,x'."),
    ],
)
def test_what_is_refused(kind: Any, value: str, message: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        click_type(kind).convert(value, None, None)
    assert caught.value.message == message


def test_integers_have_32_bits_unless_more_are_asked_for() -> None:
    assert integer().convert(str(2**31 - 1), None, None) == 2**31 - 1
    assert integer(bits=64).convert(str(2**63 - 1), None, None) == 2**63 - 1
    with pytest.raises(click.BadParameter, match="that fits 32 bits"):
        integer().convert(str(2**31), None, None)


def test_options_of_kaldis_threads_change_nothing() -> None:
    for verb in ("chain-train", "chain-compute-prob", "chain-combine"):
        check_ignored(verb, "--numerator-graph-threads=4")


def test_kaldis_weight_of_supervision_changes_nothing() -> None:
    check_ignored("chain-get-supervision", "--weight=3")


def test_one_option_of_a_class() -> None:
    @click.command()
    @one(TrainerOptions, "momentum")
    @one(TrainerOptions, "print_interval", "lines", "-n", "--lines", program_default=7)
    def command(**given: Any) -> dict[str, Any]:
        return given

    assert command.main([], standalone_mode=False) == {"momentum": 0.0, "lines": 7}
    assert command.main(["--momentum=0.5", "-n", "2"], standalone_mode=False) == {"momentum": 0.5, "lines": 2}
    with pytest.raises(click.BadParameter, match="must be >= 0 and < 1"):
        command.main(["--momentum=1"], standalone_mode=False)
