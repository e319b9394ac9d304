import contextlib
import os
from pathlib import Path

import click

from nnet3.cli import later
from nnet3.cli.messages import say
from nnet3.cli.options import port_option
from nnet3.cli.verb import RUNNING, take_use_gpu, verb
from nnet3.errors import Nnet3Error


@verb("train a network: a whole run from one settings file", RUNNING)
@click.option("--resume", is_flag=True, help="Go on from the latest checkpoint, if there is one.")
@click.option("--allow-changes", is_flag=True, help="Go on although settings have changed that matter.")
@click.option("--describe", is_flag=True, help="Print a settings file with every key, its default and what it is for.")
@click.option("--page", metavar="FILE", help="Write a page of the run for a browser when it ends.")
@port_option("--serve", help="Serve it meanwhile at 127.0.0.1; port 0: any.")
@click.argument("file", required=False, metavar="SETTINGS")
def command(
    file: str | None, resume: bool, allow_changes: bool, describe: bool, page: str | None, port: int | None
) -> int:
    """Train a network: a whole run, from examples to the final model, as a TOML or YAML file says.

    The run's folder gets checkpoints, the final model (final.raw or final.mdl), a log (log.txt, log.jsonl) and the
    curves (curves.png). SIGTERM or Ctrl-C finish the minibatch and save; --resume goes on after whatever has ended the
    run, to the same parameters, bit by bit, as if nothing had happened. Several processes: start them with torchrun.

    \b
    Examples:
      nnet3 train-model run.toml
      nnet3 train-model --resume run.toml
      torchrun --nproc-per-node=4 --max-restarts=3 -m nnet3 train-model --resume run.toml
    """
    if describe:
        click.echo(later.settings.describe_settings(*later.kinds.KINDS.sections), nl=False)
        return 0
    if file is None:
        raise click.UsageError("give a settings file; --describe prints one")
    use_gpu = take_use_gpu()
    read = later.kinds.KINDS.read(later.settings_text.read_settings_text(file))
    if use_gpu in ("yes", "wait") and not read.training.device.startswith("cuda"):
        raise click.UsageError(f'--use-gpu={use_gpu}: {file} says where: device = "cuda" in [training]')
    if (
        page is not None and Path(page).resolve().parent != Path(read.output.folder).resolve()
    ):  # that comes with the run
        later.files.check_can_save(page)
    stop = later.stop.StopRequest()
    serving: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if port is not None and os.environ.get("RANK", "0") == "0":  # the first of several processes
        serving = later.exploring.serving_run(read.output.folder, port)
    with serving, stop.listening():  # torchrun soon ends a run that has lost another process: it is to say so first
        try:
            status = later.train_model.train_model(
                read, later.kinds.KINDS, resume=resume, allow_changes=allow_changes, stop=stop
            )
            if page is not None:
                later.exploring.write_page(read.output.folder, page, None)
            return status
        except Nnet3Error as error:
            say(str(error))
            return 1
