"""The `nnet3` command: finds the verb and turns a user's mistakes into one message and an exit status.

Status 0: good; 1: the user's input was wrong (message on stderr); 2: wrong usage.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from typing import Any

import click
from click.shell_completion import shell_complete

from nnet3.cli.kaldi_arguments import explain_unknown
from nnet3.cli.messages import plain_warnings, say
from nnet3.cli.quick_imports import INTERRUPTED
from nnet3.cli.verb import explain_unknown_verb, find_program, find_verb, options_of_verbs
from nnet3.cli.verb_table import FAMILIES, FIRST_VERBS, VERBS
from nnet3.errors import Nnet3Error, is_out_of_memory

_COMPLETE = "_NNET3_COMPLETE"  # set by the shell whose completion asks


class _NobodyReadsError(Exception):
    """Our output goes to a program that has ended, such as `head`."""


class _Verbs(click.Group):
    """Imports a verb's file only when that verb is used or helped with."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return find_verb(cmd_name) if cmd_name in VERBS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise click.UsageError(explain_unknown_verb(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs to begin with"):
            formatter.write_dl([(name, VERBS[name].summary) for name in FIRST_VERBS])
        with formatter.section("Families of verbs"):
            formatter.write_dl(list(FAMILIES.items()))


@click.group(
    cls=_Verbs, subcommand_metavar="VERB [ARGUMENTS]...", context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="nnet3")
def _nnet3() -> None:
    """Kaldi nnet3 neural networks on PyTorch.

    `nnet3 help FAMILY` lists the verbs of a family, `nnet3 help all` all of them;
    `nnet3 VERB --help` explains a verb and shows an example. Files may be named as Kaldi does it: `-` is standard
    input or output, `command |` and `| command` are what a command prints or reads.
    """


def run(arguments: list[str], program: str) -> int:
    """Runs `nnet3`, or the program of Kaldi of this name; returns the exit status."""
    try:
        return _tell(arguments, program)
    except (click.exceptions.Abort, KeyboardInterrupt):  # maybe while it told of a mistake
        return INTERRUPTED


def _tell(arguments: list[str], program: str) -> int:
    """Runs a command; says on stderr what the user did wrong. Returns the exit status."""
    try:
        with plain_warnings():
            return _invoke(arguments, program)
    except click.NoSuchOption as error:
        command = error.ctx.command if error.ctx is not None else _nnet3
        return _show(click.UsageError(explain_unknown(error.option_name, command, options_of_verbs()), error.ctx))
    except click.ClickException as error:
        return _show(error)
    except Nnet3Error as error:
        return _fail(str(error))
    except _NobodyReadsError:
        return 0
    except OSError as error:
        return _fail(f"{_file_of(error)}: {error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return _fail("this does not fit into memory")
    finally:
        _drop_unwritten()


def _file_of(error: OSError) -> str:
    """Returns the file of an error, by default standard output: of what is open already the system tells no name."""
    if error.filename:
        return str(error.filename)
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        for value in frame.f_locals.values():
            if isinstance(value, io.IOBase) and isinstance(name := getattr(value, "name", None), str):
                return "standard output" if name == "<stdout>" else name
    return "standard output"


def _invoke(arguments: list[str], program: str) -> int:
    verb = find_program(program)
    instruction = os.environ.get(_COMPLETE)
    if instruction:
        return shell_complete(_nnet3, {}, "nnet3", _COMPLETE, instruction)
    try:
        status = _call(verb or _nnet3, arguments, program if verb else "nnet3", verb.program_defaults if verb else {})
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise _NobodyReadsError from error
    return status if isinstance(status, int) else 0


def _call(command: click.Command, arguments: list[str], name: str, defaults: dict[str, Any]) -> Any:
    """Invokes a command as `click.Command.main` does, which would turn a reader that has gone into status 1."""
    try:
        with command.make_context(name, arguments, default_map=defaults) as context:
            return command.invoke(context)
    except click.exceptions.Exit as error:
        return error.exit_code


def _drop_unwritten() -> None:
    """Drops output that cannot be written, to keep Python from complaining again at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _show(error: click.ClickException) -> int:
    with contextlib.suppress(OSError):
        error.show()
    return error.exit_code


def _fail(message: str) -> int:
    say(message)
    return 1
