"""Verb: a click command that also takes Kaldi's global options; look-up of verbs.

A verb is found by its name or its program in the table. Only the file of its family is imported.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click

from nnet3.base.text import did_you_mean
from nnet3.cli import later
from nnet3.cli.kaldi_arguments import option_names, read_arguments
from nnet3.cli.messages import say, verbosity
from nnet3.cli.options import KALDI_BOOL, integer
from nnet3.cli.verb_table import FAMILIES, VERBS
from nnet3.errors import Nnet3Error

_LOG = logging.getLogger("nnet3")
#: A word of a command line, with the blanks before it; the name of a verb goes with what stands before the name.
_WORD = re.compile(r"""\s*(?:\| )?nnet3 \S+|\s*(?:[^\s'"]|'[^']*'|"[^"]*"|['"])+""")
_COLUMNS = 74
_INTERNALS, _USE_GPU = "nnet3.internals", "nnet3.use_gpu"


class Verb(click.Command):
    """A command with Kaldi's global options: `--config` acts before click parses, the others when the verb runs.

    Summary and Kaldi's program are those of the verb's name in the table.
    """

    def __init__(
        self, name: str, *, program_defaults: dict[str, Any] | None = None, error_status: int = 1, **settings: Any
    ):
        listed = VERBS.get(name)
        super().__init__(name, short_help=listed.summary if listed else None, **settings)
        self._error_status = error_status
        self.program, self.program_defaults = listed.program if listed else "", program_defaults or {}
        own = {name for parameter in self.params for name in parameter.opts}
        self.global_options = [option for option in _global_options() if not own.intersection(option.opts)]
        self.params = [*self.params, *self.global_options]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with_internals = read_arguments(self, args)
        ctx.meta[_INTERNALS] = dict(with_internals.internals)
        return super().parse_args(ctx, with_internals.arguments)

    def invoke(self, ctx: click.Context) -> Any:
        settings = {option.name: ctx.params.pop(option.name or "") for option in self.global_options}
        if settings.get("print_args"):
            say(shlex.join(sys.argv))
        ctx.meta[_USE_GPU] = settings.get("use_gpu")
        with verbosity(settings.get("verbose") or 0), _keeping_inputs(ctx.params.values()):
            result = self._result(ctx)
            for name, value in ctx.meta[_INTERNALS].items():
                _LOG.debug("ignored: --%s=%s, which steers what works in another way here", name, str(value).lower())
            if ctx.meta[_USE_GPU] not in (None, "no"):
                _LOG.debug("ignored: --use-gpu=%s, since nothing is computed on a GPU here", ctx.meta[_USE_GPU])
        return result

    def _result(self, ctx: click.Context) -> Any:
        if self._error_status == 1:  # that of all errors told elsewhere
            return super().invoke(ctx)
        try:
            return super().invoke(ctx)
        except Nnet3Error as error:
            say(str(error))
            return self._error_status

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)]
        own = [record for p in options if p not in self.global_options and (record := p.get_help_record(ctx))]
        with formatter.section("Options"):
            formatter.write_dl(own)
        with formatter.section("Options of all verbs, as in Kaldi"):
            formatter.write_dl([record for p in self.global_options if (record := p.get_help_record(ctx))])


def _keeping_inputs(values: Iterable[Any]) -> AbstractContextManager[None]:
    """Returns a context in which a file named by two parameters counts as an input and can be written only once."""
    flat = [each for value in values for each in (value if isinstance(value, tuple) else (value,))]
    words = [each for each in flat if isinstance(each, str)]
    named = [path for word in words for path in {os.path.realpath(name) for name in _names_in(word)}]
    files = [path for path in named if os.path.isfile(path)]
    twice = [path for path, count in Counter(named).items() if count > 1]
    return later.kaldi_io.keeping_inputs(files, twice) if len(files) > 1 or twice else nullcontext()


def _names_in(word: str) -> set[str]:
    """Returns what may be names of files in a word: the word, and what follows the colon of a specifier."""
    return {name for name in (word, *word.partition(":")[2].split(",")) if name}


def verb(
    name: str = "", *, program_defaults: dict[str, Any] | None = None, error_status: int = 1, help: str = ""
) -> Callable[[Callable[..., Any]], Verb]:
    """Decorator: makes a verb of a function decorated by click options, with the function's name by default.

    `program_defaults` are the options with other defaults under the name of Kaldi's program, `error_status` the exit
    status after an error. The help is by default the
    function's docstring; its last paragraph, command lines as typed, is shown as examples.
    """

    def decorate(function: Callable[..., Any]) -> Verb:
        made = click.command(
            name or function.__name__.replace("_", "-"),
            cls=Verb,
            help=_with_examples(inspect.cleandoc(help or function.__doc__ or "")),
            program_defaults=program_defaults,
            error_status=error_status,
        )
        return made(function)

    return decorate


def _with_examples(help: str) -> str:
    """Returns a help whose last paragraph, if of command lines, is marked for click: not to be wrapped."""
    text, _, commands = help.rpartition("\n\n")
    if not commands.startswith("nnet3 "):
        return help
    lines = commands.split("\n")
    title = "Examples:" if sum(not line.startswith(" ") for line in lines) > 1 else "Example:"
    return "\n".join([text, "", "\b", title, *(f"  {piece}" for line in lines for piece in _folded(line))])


def _folded(command: str) -> list[str]:
    """Returns a command line as lines that 80 columns show whole; a backslash ends each but the last."""
    words = [match.group() for match in _WORD.finditer(command)]
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) > _COLUMNS and word.strip() != "\\":
            lines[-1] += " \\"
            lines.append(" " + word)
        else:
            lines[-1] += word
    return lines


def take_internal(name: str, default: Any) -> Any:
    """Returns the value of an option that steers Kaldi's internals, or the default; the caller acts on it."""
    internals: dict[str, Any] = click.get_current_context().meta[_INTERNALS]
    return internals.pop(name, default)


def take_use_gpu() -> str | None:
    """Returns the value of `--use-gpu`, if given; the caller acts on it."""
    value: str | None = click.get_current_context().meta.pop(_USE_GPU, None)
    click.get_current_context().meta[_USE_GPU] = None
    return value


def run_on_cpu() -> None:
    """Says of a verb that it computes on the CPU. Raises click.UsageError if the user demands a GPU."""
    value = take_use_gpu()
    if value in ("yes", "wait"):
        raise click.UsageError(f"--use-gpu={value}: what this verb computes runs on the CPU: leave that out")


def _global_options() -> list[click.Option]:
    return [
        click.Option(["--config"], metavar="FILE", help="Read options from a file, one --name=value a line."),
        click.Option(["--verbose"], type=integer(), default=0, metavar="N", help="From 1 on: say more."),
        click.Option(["--print-args"], type=KALDI_BOOL, default=False, help="Print the command line to stderr."),
        click.Option(
            ["--use-gpu"],
            type=click.Choice(["yes", "no", "wait", "optional"], case_sensitive=False),
            help="Whether what computes may or must use a GPU.",
        ),
    ]


def find_verb(name: str) -> Verb:
    """Returns the verb of a known name."""
    module = importlib.import_module(f"nnet3.cli.verbs.{VERBS[name].family}")
    found: Verb = getattr(module, name.replace("-", "_"))
    return found


def find_program(program: str) -> Verb | None:
    """Returns the verb for a program of Kaldi, whose name may lack `.py`; None without one."""
    stem = program.removesuffix(".py")
    name = next((listed.name for listed in VERBS.values() if listed.program.removesuffix(".py") == stem != ""), None)
    return None if name is None else find_verb(name)


def options_of_verbs() -> set[str]:
    """Returns the long options of all verbs, without dashes."""
    return {option for name in VERBS for option in option_names(find_verb(name))}


def explain_unknown_verb(word: str) -> str:
    """Returns the message for a word that is no verb."""
    if word in FAMILIES:
        return f"there is no verb '{word}'; 'nnet3 help {word}' lists the verbs of that family"
    found = find_program(word)
    if found is not None:
        return f"there is no verb '{word}': say 'nnet3 {found.name}', or '{word}' alone"
    if word.startswith("nnet3-"):
        return f"there is no verb '{word}', nor one for that program of Kaldi yet; 'nnet3 help all' lists the verbs"
    hint = did_you_mean(word, [*VERBS, *FAMILIES])
    return f"there is no verb '{word}'{'; ' + hint if hint else ''}"
