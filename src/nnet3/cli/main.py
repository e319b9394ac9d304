"""The `nnet3` command: finds the verb and turns a user's mistakes into one message and an exit status.

Status 0: good; 1: the user's input was wrong (message on stderr); 2: wrong usage.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

from nnet3.errors import Nnet3Error

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
    "show-computation": ("show_computation", "compile for a request and print every stage"),
}


class _Verbs(click.Group):
    """Imports a verb's file only when that verb is used or helped with."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"nnet3.cli.{VERBS[cmd_name][0]}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="nnet3")
def _nnet3() -> None:
    """Kaldi nnet3 neural networks on PyTorch.

    `nnet3 VERB --help` explains a verb and shows an example.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `nnet3` command."""
    try:
        status = _nnet3.main(
            args=None if arguments is None else list(arguments), prog_name="nnet3", standalone_mode=False
        )
        sys.exit(status if isinstance(status, int) else 0)
    except click.UsageError as error:
        error.show()
        sys.exit(2)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(1)
    except Nnet3Error as error:
        _fail(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads our output any more
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(message: str) -> None:
    print(f"nnet3: {message}", file=sys.stderr)
    sys.exit(1)
