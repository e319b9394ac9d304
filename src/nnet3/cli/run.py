"""The `nnet3` command: finds the verb and turns a user's mistakes into one message and an exit status.

Status 0: good; 1: the user's input was wrong (message on stderr); 2: wrong usage.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from nnet3.cli.lazy import INTERRUPTED
from nnet3.cli.messages import plain_warnings, say
from nnet3.errors import Nnet3Error, is_out_of_memory
from nnet3.text import did_you_mean

# verb -> (module in nnet3.cli, one line of help)
VERBS: dict[str, tuple[str, str]] = {
    "demo": ("demo.command", "see networks learn from real data"),
    "init": ("init", "make a network from configs or xconfigs"),
    "xconfig-to-configs": ("xconfig_to_configs", "make config files of an xconfig, which describes layers"),
    "xconfig-help": ("xconfig_help", "explain the layers of xconfigs and their keys"),
    "info": ("info", "describe a network"),
    "describe": ("describe", "print the layers of a network, as an xconfig"),
    "draw": ("draw", "draw a network as a picture"),
    "copy": ("copy", "copy a raw network with changes"),
    "average": ("average", "average networks"),
    "am-info": ("am_info", "describe an acoustic model"),
    "am-copy": ("am_copy", "copy an acoustic model with changes"),
    "am-init": ("am_init", "make an acoustic model from a transition model and a network"),
    "am-adjust-priors": ("am_adjust_priors", "set an acoustic model's priors"),
    "train-model": ("train_model", "train a network: a whole run from one settings file"),
    "compute": ("compute", "run a network over utterances"),
    "train": ("train", "train a network on examples"),
    "compute-prob": ("compute_prob", "objective and accuracy of a network on examples"),
    "show-progress": ("show_progress", "what has changed from one network to another"),
    "combine": ("combine", "the average of the last networks that is best on examples"),
    "get-egs": ("get_egs", "make training examples of features and posteriors"),
    "get-egs-dense-targets": ("get_egs_dense_targets", "make training examples of features and target matrices"),
    "merge-egs": ("merge_egs", "merge training examples into minibatches"),
    "shuffle-egs": ("shuffle_egs", "put training examples into random order"),
    "subset-egs": ("subset_egs", "take some training examples at random"),
    "copy-egs": ("copy_egs", "copy training examples with changes, to one or more tables"),
    "chain-est-phone-lm": ("chain_est_phone_lm", "estimate the phone language model of a denominator graph"),
    "chain-make-den-fst": ("chain_make_den_fst", "make a denominator graph and a normalization graph"),
    "chain-get-supervision": ("chain_get_supervision", "say which sequences of pdfs are right for each utterance"),
    "chain-get-egs": ("chain_get_egs", "make chain examples of features and supervision"),
    "chain-e2e-get-egs": ("chain_e2e_get_egs", "make chain examples of utterances and training graphs"),
    "chain-normalize-egs": ("chain_normalize_egs", "weight chain examples by a normalization graph"),
    "chain-merge-egs": ("chain_merge_egs", "merge chain examples into minibatches"),
    "chain-shuffle-egs": ("chain_shuffle_egs", "put chain examples into random order"),
    "chain-subset-egs": ("chain_subset_egs", "take some chain examples at random"),
    "chain-copy-egs": ("chain_copy_egs", "copy chain examples with changes, to one or more tables"),
    "chain-train": ("chain_train", "train a network with LF-MMI on chain examples"),
    "chain-compute-prob": ("chain_compute_prob", "the LF-MMI objective of a network on chain examples"),
    "chain-combine": ("chain_combine", "the average of the last networks that is best on chain examples"),
    "show-computation": ("show_computation", "compile for a request and print every stage"),
    "profile": ("profile", "see where the time of a network goes"),
}

# Programs of Kaldi -> the verb that does the same, and where it differs by default: these print Kaldi's own lines.
PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "nnet3-init": ("init", {}),
    "nnet3-info": ("info", {"kaldi": True}),
    "nnet3-copy": ("copy", {}),
    "nnet3-average": ("average", {}),
    "nnet3-am-info": ("am-info", {"kaldi": True}),
    "nnet3-am-copy": ("am-copy", {}),
    "nnet3-am-init": ("am-init", {}),
    "nnet3-am-adjust-priors": ("am-adjust-priors", {}),
    "nnet3-compute": ("compute", {}),
    "nnet3-train": ("train", {}),
    "nnet3-compute-prob": ("compute-prob", {}),
    "nnet3-show-progress": ("show-progress", {}),
    "nnet3-combine": ("combine", {}),
    "nnet3-get-egs": ("get-egs", {}),
    "nnet3-get-egs-dense-targets": ("get-egs-dense-targets", {}),
    "nnet3-merge-egs": ("merge-egs", {}),
    "nnet3-shuffle-egs": ("shuffle-egs", {}),
    "nnet3-subset-egs": ("subset-egs", {}),
    "nnet3-copy-egs": ("copy-egs", {}),
    "chain-est-phone-lm": ("chain-est-phone-lm", {}),
    "chain-make-den-fst": ("chain-make-den-fst", {}),
    "chain-get-supervision": ("chain-get-supervision", {}),
    "nnet3-chain-get-egs": ("chain-get-egs", {}),
    "nnet3-chain-e2e-get-egs": ("chain-e2e-get-egs", {}),
    "nnet3-chain-normalize-egs": ("chain-normalize-egs", {}),
    "nnet3-chain-train": ("chain-train", {}),
    "nnet3-chain-compute-prob": ("chain-compute-prob", {}),
    "nnet3-chain-combine": ("chain-combine", {}),
    "nnet3-chain-merge-egs": ("chain-merge-egs", {}),
    "nnet3-chain-shuffle-egs": ("chain-shuffle-egs", {}),
    "nnet3-chain-subset-egs": ("chain-subset-egs", {}),
    "nnet3-chain-copy-egs": ("chain-copy-egs", {}),
}


class _NobodyReadsError(Exception):
    """Our output goes to a program that has ended, such as `head`."""


class _Verbs(click.Group):
    """Imports a verb's file only when that verb is used or helped with."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _command(cmd_name) if cmd_name in VERBS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise click.UsageError(_no_such_verb(args[0]), ctx)
        return super().resolve_command(ctx, args)

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


def run(arguments: list[str], program: str) -> int:
    """Run `nnet3`, or the program of Kaldi of this name; returns the exit status."""
    try:
        with plain_warnings():
            return _invoke(arguments, program)
    except click.UsageError as error:
        error.show()
        return 2
    except (click.exceptions.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return 1
    except Nnet3Error as error:
        return _fail(str(error))
    except _NobodyReadsError:
        _write_nowhere()
        return 0
    except OSError as error:
        return _fail(f"{error.filename or 'standard output'}: {error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return _fail("this does not fit into memory")


def _invoke(arguments: list[str], program: str) -> int:
    verb, defaults = PROGRAMS.get(program, ("", {}))
    command = _command(verb) if verb else _nnet3
    try:
        status = _call(command, arguments, program if verb else "nnet3", defaults)
        if sys.stdout is not None:  # it is None if the caller has closed it
            sys.stdout.flush()
    except BrokenPipeError as error:
        raise _NobodyReadsError from error
    return status if isinstance(status, int) else 0


def _call(command: click.Command, arguments: list[str], name: str, defaults: dict[str, Any]) -> Any:
    """As `click.Command.main` does it, which would make status 1 of a reader that has gone."""
    try:
        with command.make_context(name, arguments, default_map=defaults) as context:
            return command.invoke(context)
    except click.exceptions.Exit as error:
        return error.exit_code


def _command(verb: str) -> click.Command:
    command: click.Command = importlib.import_module(f"nnet3.cli.{VERBS[verb][0]}").command
    return command


def _no_such_verb(word: str) -> str:
    if word in PROGRAMS:
        return f"there is no verb '{word}': say 'nnet3 {PROGRAMS[word][0]}', or '{word}' alone"
    if word.startswith("nnet3-"):
        return f"there is no verb '{word}', nor one for that program of Kaldi yet; 'nnet3 --help' lists the verbs"
    hint = did_you_mean(word, VERBS)
    return f"there is no verb '{word}'{'; ' + hint if hint else ''}"


def _write_nowhere() -> None:
    """What is still to be flushed when Python ends has no reader."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> int:
    say(message)
    return 1
