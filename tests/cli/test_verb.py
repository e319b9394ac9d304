"""Kaldi's global options: their defaults, how the help shows them, who may act on them."""

from __future__ import annotations

import inspect
from typing import Any

import click
import pytest

from nnet3.cli.verb import Verb, find_verb, run_on_cpu, take_internal, take_use_gpu, verb
from nnet3.cli.verb_table import VERBS


@verb("some", program_defaults={"own": 5})
@click.option("--own", type=int, default=3, help="One of its own.")
@click.option("--hidden", type=int, default=3, hidden=True)
def some(own: int, hidden: int) -> tuple[Any, ...]:
    """Say what there is."""
    return own, take_use_gpu(), take_internal("compiler.cache-capacity", 7), take_internal("computation.debug", None)


def _run(*words: str, command: click.Command = some) -> Any:
    return command.main([*words], prog_name="some", standalone_mode=False)


def test_command_lines_at_the_end_of_the_help_are_examples() -> None:
    @verb()
    def two() -> None:
        """Say two
        things.

        nnet3 two
        nnet3 two \\
          --again
        """

    assert two.name == "two"
    assert two.help == "Say two\nthings.\n\n\b\nExamples:\n  nnet3 two\n  nnet3 two \\\n    --again"
    assert some.help == "Say what there is."


@pytest.mark.parametrize("name", VERBS)
def test_a_terminal_of_80_columns_shows_examples_whole(name: str) -> None:
    shown = find_verb(name)
    examples = (shown.help or "").partition("\n  ")[2]
    assert max(map(len, examples.split("\n"))) < 80
    written = (inspect.getdoc(shown.callback) or "").rpartition("\n\n")[2]
    if written.startswith("nnet3 "):
        assert examples.replace("\\\n", "").split() == written.replace("\\\n", "").split()


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (f"nnet3 two {'a' * 62} b", [f"nnet3 two {'a' * 62} b"]),
        (f"nnet3 two {'a' * 63} b", [f"nnet3 two {'a' * 63} \\", "  b"]),
        (f"nnet3 two {'a' * 63} \\", [f"nnet3 two {'a' * 63} \\"]),
        (f"nnet3 two {'a' * 56} | nnet3 two b", [f"nnet3 two {'a' * 56} \\", "  | nnet3 two b"]),
        (f"nnet3 two {'a' * 50} 'ark:b c d e f |' \"", [f"nnet3 two {'a' * 50} \\", "  'ark:b c d e f |' \""]),
    ],
)
def test_quoted_words_and_backslashes_stay_whole(line: str, shown: list[str]) -> None:
    two = verb("two", help=f"Say.\n\n{line}")(lambda: None)
    assert (two.help or "").split("\n")[4:] == [f"  {part}" for part in shown]


def test_what_is_not_given() -> None:
    assert isinstance(some, Verb)
    assert (some.name, some.short_help, some.program, some.program_defaults) == ("some", None, "", {"own": 5})
    assert _run() == (3, None, 7, None)
    with some.make_context("some", []) as context:
        assert context.params == {
            "own": 3, "hidden": 3, "config": None, "verbose": 0, "print_args": False, "use_gpu": None,
        }  # fmt: skip


def test_what_is_given() -> None:
    assert _run("--own=4", "--use-gpu=YES", "--compiler.cache-capacity=5") == (4, "yes", 5, None)


@pytest.mark.parametrize("word", ["--use-gpu=perhaps", "--verbose=x", "--print-args=x"])
def test_what_is_wrong(word: str) -> None:
    with pytest.raises(click.UsageError):
        _run(word)


def test_help_lists_own_options_before_kaldis() -> None:
    text = some.get_help(click.Context(some))
    own, _, kaldis = text.partition("\n\nOptions of all verbs, as in Kaldi:\n")
    words = " ".join(own.partition("Options:\n")[2].split())
    assert words == "--own INTEGER One of its own. --help Show this message and exit."
    assert " ".join(kaldis.split()) == (
        "--config FILE Read options from a file, one --name=value a line. "
        "--verbose N From 1 on: say more. "
        "--print-args BOOLEAN Print the command line to stderr. "
        "--use-gpu [yes|no|wait|optional] Whether what computes may or must use a GPU."
    )


def test_own_options_prevail() -> None:
    @verb()
    @click.option("--use-gpu", type=int, default=7)
    @click.option("--verbose", type=int, default=9)
    def other(use_gpu: int, verbose: int) -> tuple[int, int]:
        return use_gpu, verbose

    assert isinstance(other, Verb)
    assert (other.name, other.program, other.program_defaults) == ("other", "", {})
    assert [option.name for option in other.global_options] == ["config", "print_args"]
    assert _run(command=other) == (7, 9)


def test_what_nobody_acts_on_is_said_to_be_ignored(caplog: pytest.LogCaptureFixture) -> None:
    @verb()
    def deaf() -> int:
        return 5

    def said(*words: str, command: click.Command = deaf) -> list[str]:
        caplog.clear()
        _run(*words, command=command)
        return [record.getMessage() for record in caplog.records]

    gpu = "ignored: --use-gpu={}, since nothing is computed on a GPU here"
    debug = "ignored: --computation.debug=true, which steers what works in another way here"
    assert said("--verbose=1", "--use-gpu=wait", "--computation.debug") == [debug, gpu.format("wait")]
    assert said("--verbose=1", "--use-gpu=no") == []
    assert said("--verbose=0", "--use-gpu=wait") == []
    assert said("--verbose=1", "--use-gpu=wait", "--computation.debug", command=some) == []
    assert _run(command=deaf) == 5


def test_the_command_line_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["nnet3", "some", "a b"])
    _run("--print-args")
    assert capsys.readouterr().err == "nnet3: nnet3 some 'a b'\n"
    _run()
    assert capsys.readouterr().err == ""


def test_every_option_that_is_an_integer_has_bounds() -> None:
    """2^70 is wrong usage everywhere; a seed may have 64 bits."""
    found = 0
    for name in VERBS:
        for parameter in find_verb(name).params:
            try:
                is_integer = type(parameter.type.convert("7", parameter, None)) is int
            except click.UsageError:
                continue
            if not is_integer:
                continue
            found += 1
            for number in (str(2**70), str(-(2**70)), "9" * 5000):
                with pytest.raises(click.UsageError):
                    parameter.type.convert(number, parameter, None)
            if parameter.name == "seed":
                assert parameter.type.convert(str(2**63 - 1), parameter, None) == 2**63 - 1
    assert found > 2 * len(VERBS)


def test_a_verb_that_runs_on_the_cpu() -> None:
    @verb()
    def adding() -> None:
        run_on_cpu()

    for word in ("yes", "wait"):
        with pytest.raises(click.UsageError, match=f"--use-gpu={word}: what this verb computes runs on the CPU"):
            _run(f"--use-gpu={word}", command=adding)
    for words in ([], ["--use-gpu=no"], ["--use-gpu=optional"]):
        _run(*words, command=adding)
