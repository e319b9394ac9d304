"""`nnet3 compute`: run a network over utterances (Kaldi: nnet3-compute, nnet3-am-compute)."""

from __future__ import annotations

import contextlib
import time

import click
import numpy as np
from rich.console import Console

from nnet3.cli.files import load_model
from nnet3.cli.messages import say
from nnet3.cli.options import KALDI_BOOL
from nnet3.cli.verb import verb
from nnet3.decode import UtteranceComputer, UtteranceOptions
from nnet3.errors import ExecutionError, NetworkError, Nnet3Error
from nnet3.kaldi_io import (
    RandomAccessTable,
    matrix_writer,
    open_matrix_table,
    random_access_matrices,
    random_access_vectors,
)
from nnet3.nnet import AcousticModel, Nnet

_SECONDS_BETWEEN_LINES = 30.0


@verb("compute")
@click.option("--ivectors", metavar="RSPECIFIER", help="One ivector per utterance.")
@click.option("--online-ivectors", metavar="RSPECIFIER", help="Matrices of ivectors, one row every so many frames.")
@click.option(
    "--online-ivector-period", type=click.IntRange(1), default=10, show_default=True, help="Frames per online ivector."
)
@click.option(
    "--frame-subsampling-factor", type=click.IntRange(1), default=1, show_default=True, help="Input frames per output."
)
@click.option("--frames-per-chunk", type=click.IntRange(0), default=0, help="Run in chunks of input frames (0: whole).")
@click.option("--extra-left-context", type=click.IntRange(0), default=0, help="Frames more at the left of a chunk.")
@click.option("--extra-right-context", type=click.IntRange(0), default=0, help="Frames more at the right of a chunk.")
@click.option("--extra-left-context-initial", type=int, default=-1, help="The same for the first chunk (-1: same).")
@click.option("--extra-right-context-final", type=int, default=-1, help="The same for the last chunk (-1: same).")
@click.option("--apply-exp", type=KALDI_BOOL, default=False, help="Write exp(output), for instance posteriors.")
@click.option("--use-priors", type=KALDI_BOOL, default=False, help="Subtract the log-priors of an acoustic model.")
@click.argument("network", metavar="MODEL")
@click.argument("features", metavar="FEATURES-RSPECIFIER")
@click.argument("output", metavar="MATRIX-WSPECIFIER")
def command(
    network: str,
    features: str,
    output: str,
    ivectors: str | None,
    online_ivectors: str | None,
    apply_exp: bool,
    use_priors: bool,
    **options: int,
) -> None:
    """Run a network over tables of features, a whole utterance at a time, and write a matrix for each.

    Batch-norm and dropout are in test mode. The first and last frame are repeated for context. An utterance that
    cannot be computed is reported and left out; the exit status is 1 if none could.

    \b
    Example:
      nnet3 compute --online-ivectors=scp:ivectors.scp final.raw scp:feats.scp ark:output.ark
    """
    if ivectors and online_ivectors:
        raise click.UsageError("give --ivectors or --online-ivectors, not both")
    nnet, log_priors = _load(network, use_priors)
    nnet.set_test_mode(True)
    computer = UtteranceComputer(nnet, UtteranceOptions(**options))
    single = random_access_vectors(ivectors) if ivectors else None
    online = random_access_matrices(online_ivectors) if online_ivectors else None
    tally = _Tally()
    with open_matrix_table(features) as table, matrix_writer(output) as writer, tally.shown():
        for key, matrix in table:
            try:
                result = computer.compute(matrix, _look_up(single, key), _look_up(online, key)).numpy()
            except (ExecutionError, _MissingError) as error:
                say(f"warning: utterance '{key}' left out: {error}")
                tally.add(failed=1)
                continue
            if log_priors is not None:
                result = result - log_priors
            writer.write(key, np.exp(result) if apply_exp else result)
            tally.add(done=1, frames=len(matrix))
        if tally.done == 0:
            failed = tally.failed
            raise Nnet3Error(
                f"no utterance was computed ({failed} left out)" if failed else f"{features}: no utterances"
            )
    say(str(tally))


class _Tally:
    """What has been done, shown while it grows: in one line on a terminal, now and then in a new one elsewhere."""

    def __init__(self) -> None:
        self.done, self.failed, self.frames = 0, 0, 0
        self._start = self._said = time.perf_counter()
        self._console = Console(stderr=True)
        self._status = self._console.status("")

    def shown(self) -> contextlib.AbstractContextManager[object]:
        return self._status if self._console.is_terminal else contextlib.nullcontext()

    def add(self, *, done: int = 0, failed: int = 0, frames: int = 0) -> None:
        self.done, self.failed, self.frames = self.done + done, self.failed + failed, self.frames + frames
        now = time.perf_counter()
        if self._console.is_terminal:
            self._status.update(str(self))
        elif now - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = now
            say(str(self))

    def __str__(self) -> str:
        seconds = time.perf_counter() - self._start
        return f"{self.done} utterances computed, {self.failed} left out; {self.frames} frames in {seconds:.2f} s"


class _MissingError(Nnet3Error):
    """A table has no entry for an utterance."""


def _look_up(table: RandomAccessTable[np.ndarray] | None, key: str) -> np.ndarray | None:
    if table is None:
        return None
    if key not in table:
        raise _MissingError("no ivector for it")
    return table[key]


def _load(path: str, use_priors: bool) -> tuple[Nnet, np.ndarray | None]:
    model = load_model(path)
    if not isinstance(model, AcousticModel):
        if use_priors:
            raise NetworkError(f"{path}: --use-priors needs an acoustic model, this is a raw network")
        return model, None
    if not use_priors:
        return model.nnet, None
    if len(model.priors) == 0:
        raise NetworkError(f"{path}: --use-priors was given, but the model has no priors")
    return model.nnet, np.log(np.asarray(model.priors))
