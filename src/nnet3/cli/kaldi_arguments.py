"""Command lines of Kaldi's programs, made ready for click: what they understand beyond declared options.

Names with underscores and capitals, flags without a value, empty values, negative numbers as arguments,
`--config=FILE`, and options that steer Kaldi's internals.
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

import click

from nnet3.base.options.compiling import HIGHEST_LEVEL
from nnet3.base.text import did_you_mean
from nnet3.cli import later
from nnet3.cli.options import KALDI_BOOL, TRUTHS
from nnet3.errors import ConfigError, Nnet3Error


def _words(text: str) -> list[str]:
    return text.split()


_OPTIMIZATION_SWITCHES = _words("""
    optimize consolidate-model-update propagate-in-place backprop-in-place extend-matrices optimize-row-ops
    split-row-ops convert-addition remove-assignments allow-left-merge allow-right-merge initialize-undefined
    move-sizing-commands allocate-from-other snip-row-ops optimize-looped-computation
""")
_NEGATIVE = re.compile(r"-\.?\d[\d.e+-]*")
_LEVEL = click.IntRange(0, HIGHEST_LEVEL)
_OPTIMIZATION_NUMBERS = _words("min-deriv-time max-deriv-time max-deriv-time-relative memory-compression-level")

# Options that change how Kaldi compiles and runs, but no result; and the type of their values.
INTERNALS: dict[str, click.ParamType[Any]] = {
    **{f"optimization.{name}": KALDI_BOOL for name in _OPTIMIZATION_SWITCHES},
    **{f"optimization.{name}": click.INT for name in _OPTIMIZATION_NUMBERS},
    "optimization.level": _LEVEL,  # ours: passes up to it
    "optimization.disable-pass": click.STRING,  # ours: names of passes, separated by commas
    "prove": KALDI_BOOL,  # ours: prove every program that is compiled
    "compiler.cache-capacity": click.INT,
    "compiler.use-shortcut": KALDI_BOOL,
    "computation.debug": KALDI_BOOL,
    "debug-computation": KALDI_BOOL,
    "cuda-cache-memory": KALDI_BOOL,
    "cuda-memory-proportion": click.FLOAT,
    "delta": click.FLOAT,
    "hash-ratio": click.FLOAT,
    "memory-pool-tokens-block-size": click.INT,
    "memory-pool-links-block-size": click.INT,
}

# Options of Kaldi's nnet3 programs that no verb has: never taken for a misspelling of another option.
ELSEWHERE = frozenset(
    _words("""
    accumulate-stats add-deriv-weights combine-sum-to-one-penalty compute-prob-interval eg-weight
    enforce-sum-to-one generate-egs-scp hidden-layer-dim lda-rand-prune learning-rate-factor
    learning-rate-scale max-models measure-output-dims min-prob multitask-egs
    num-archives pdf-map-filename priors-floor reduce-rank renamed-output
    separate-updates set-unigram shuffle-buffer-size sort-by-length stage
    truncate-deriv-weights update-scale use-frame-shift write-per-thread
    """)
)


@dataclass(frozen=True)
class KaldiArguments:
    """A command line for click, and the options that steer Kaldi's internals, by name without dashes."""

    arguments: list[str]
    internals: dict[str, Any] = field(default_factory=dict)


def read_arguments(command: click.Command, arguments: list[str]) -> KaldiArguments:
    """Makes a command line ready. Options of config files come first, so that options of the command line prevail.

    Raises Nnet3Error for a config file that cannot be read, UsageError for an internal option without a value.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words, files = _split_off_configs([_with_dashes(word) for word in arguments[:end]])
    lines = [line for name in files for line in _read_config(name)]
    textual = {name for parameter in command.params if parameter.type is click.STRING for name in parameter.opts}
    own = {name for parameter in command.params for name in parameter.opts}
    flags = {name for parameter in command.params if parameter.type is KALDI_BOOL for name in parameter.opts}
    kept: list[str] = []
    internals: dict[str, Any] = {}
    around = zip(["", *words][:-1], words, [*words, ""][1:], strict=True)
    for before, word, following in [*(("", line, "") for line in lines), *around]:
        name, equals, value = word.partition("=")
        if name.removeprefix("--") in INTERNALS and name.startswith("--") and name not in own:
            internals[name.removeprefix("--")] = _internal_value(name, value if equals else "true")
        elif name in textual and equals and not value:
            kept = [other for other in kept if other.partition("=")[0] != name]  # as if it had not been given
        elif word in flags and following.lower() not in TRUTHS:
            kept.append(f"{word}=true")
        elif _NEGATIVE.fullmatch(word) and (before not in own or before in flags):
            kept.append(f" {word}")  # an argument: the space keeps click from taking it for an option
        else:
            kept.append(word)
    return KaldiArguments(kept + arguments[end:], internals)


def explain_unknown(option: str, command: click.Command, of_verbs: Set[str]) -> str:
    """Returns the message about an option that a command does not have; `of_verbs` are the options of all verbs."""
    name = option.lstrip("-").partition("=")[0]
    known = of_verbs | ELSEWHERE
    if name in known:
        return f"No such option '--{name}': Kaldi has it, but it is for other programs, or not supported here yet"
    if not option.startswith("--"):
        return f"No such option '{option}'"
    own = option_names(command)
    hint = did_you_mean(name, {*known, *INTERNALS}, similarity=0.8)
    meant = hint.partition("'")[2].rpartition("'")[0]
    if meant not in own and meant not in INTERNALS:
        return f"No such option '--{name}'"
    return f"No such option '--{name}'; did you mean '--{meant}'?"


def option_names(command: click.Command) -> set[str]:
    """Returns the long options of a command, without dashes."""
    names = [name for parameter in command.params for name in parameter.opts]
    return {name.removeprefix("--") for name in names if name.startswith("--")}


def _with_dashes(word: str) -> str:
    """Returns `--use-gpu=no` for `--Use_GPU=no`, as Kaldi reads it."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.lower().replace("_", "-") + equals + value


def _split_off_configs(words: list[str]) -> tuple[list[str], list[str]]:
    """Returns the words without `--config=FILE` or `--config FILE`, and the files."""
    rest: list[str] = []
    files: list[str] = []
    remaining = iter(words)
    for word in remaining:
        name, equals, value = word.partition("=")
        if name != "--config":
            rest.append(word)
            continue
        file = value if equals else next(remaining, "")
        if not file and not equals:
            raise click.UsageError("Option '--config' requires an argument.")
        files += [file] if file else []
    return rest, files


def _read_config(name: str) -> list[str]:
    """Returns the options in a file, one a line; `#` begins a comment."""
    try:
        text = later.files.read_text(name)
    except ConfigError:
        raise Nnet3Error(f"{name}: not a text file; --config takes a file of options such as --scale=0.5") from None
    options = []
    for number, line in enumerate(text.splitlines(), start=1):
        option = line.partition("#")[0].strip()
        if option and not option.startswith("--"):
            hint = "" if "=" not in option else f"; did you mean '--{option}'?"
            raise Nnet3Error(f"{name}:{number}: expected an option such as --scale=0.5, got '{option[:60]}'{hint}")
        if option:
            options.append(_with_dashes(option))
    return options


def _internal_value(name: str, value: str) -> Any:
    kind = INTERNALS[name.removeprefix("--")]
    try:
        if value:
            return kind.convert(value, None, None)
        raise click.BadParameter("it is empty")
    except click.BadParameter:
        level = f"an integer from 0 to {HIGHEST_LEVEL}"
        words = {KALDI_BOOL: "true or false", click.INT: "an integer", _LEVEL: level}.get(kind, "a number")
        raise click.UsageError(f"Invalid value for '{name}': it takes {words}, got '{value}'") from None
