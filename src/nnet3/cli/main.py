"""The `nnet3` command: finds the verb and turns a user's mistakes into one message and an exit status.

Status 0: good; 1: the user's input was wrong (message on stderr); 2: wrong usage.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from nnet3.cli.messages import plain_warnings, say
from nnet3.cli.options import complete_flags
from nnet3.errors import Nnet3Error, is_out_of_memory
from nnet3.text import did_you_mean

# verb -> (module in nnet3.cli, one line of help)
VERBS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "see networks learn from real data"),
    "init": ("init", "make a network from config files"),
    "info": ("info", "describe a network"),
    "copy": ("copy", "copy a raw network with changes"),
    "average": ("average", "average networks"),
    "am-info": ("am_info", "describe an acoustic model"),
    "am-copy": ("am_copy", "copy an acoustic model with changes"),
    "am-init": ("am_init", "make an acoustic model from a transition model and a network"),
    "am-adjust-priors": ("am_adjust_priors", "set an acoustic model's priors"),
    "compute": ("compute", "run a network over utterances"),
    "profile": ("profile", "see where the time of a network goes"),
    "show-computation": ("show_computation", "compile for a request and print every stage"),
}


class _NobodyReadsError(Exception):
    """Our output goes to a program that has ended, such as `head`."""


class _Verbs(click.Group):
    """Imports a verb's file only when that verb is used or helped with."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"nnet3.cli.{VERBS[cmd_name][0]}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], VERBS)
            raise click.UsageError(f"there is no verb '{args[0]}'{'; ' + hint if hint else ''}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if command is None else complete_flags(command, rest)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:  # it is None if the caller has closed it
                sys.stdout.flush()
        except BrokenPipeError as error:
            raise _NobodyReadsError from error  # click itself would make status 1 of it
        return result

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])


@click.group(
    cls=_Verbs, subcommand_metavar="VERB [ARGUMENTS]...", context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="nnet3")
def _nnet3() -> None:
    """Kaldi nnet3 neural networks on PyTorch.

    `nnet3 VERB --help` explains a verb and shows an example. Files may be named as Kaldi does it: `-` is standard
    input or output, `command |` and `| command` are what a command prints or reads.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `nnet3` command."""
    args = None if arguments is None else list(arguments)
    try:
        with plain_warnings():
            status = _nnet3.main(args=args, prog_name="nnet3", standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
    except click.UsageError as error:
        error.show()
        sys.exit(2)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(1)
    except Nnet3Error as error:
        _fail(str(error))
    except _NobodyReadsError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.filename or 'standard output'}: {error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        _fail("this does not fit into memory")


def _fail(message: str) -> None:
    say(message)
    sys.exit(1)
