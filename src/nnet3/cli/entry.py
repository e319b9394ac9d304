"""Entry points of the commands. Nothing is imported here but what is soon done: Ctrl-C works from the first moment."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from nnet3.cli import later

_PROVE = "NNET3_PROVE"  # see nnet3.engine.driver.proving
_MOMENT = 0.05  # seconds: far longer than any callback takes


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command `nnet3` with these arguments, or those of the process. Ends by SystemExit."""
    if arguments is None:
        _run_process("nnet3")
    sys.exit(_run(list(arguments), "nnet3"))


def kaldi_program() -> NoReturn:
    """Runs the program of Kaldi by whose name, such as `nnet3-copy`, the process was called."""
    name = os.path.basename(sys.argv[0])
    _run_process(name.removesuffix(".exe").removesuffix(".py"))


def _run_process(program: str) -> NoReturn:
    """Runs a program and ends the process; a process that is interrupted prints no traceback."""
    _open_closed_streams()
    for number in _signals("SIGTERM", "SIGHUP"):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)
    sys.unraisablehook = _raise_again
    os.environ.setdefault(_PROVE, "forms")  # a process waits longer for its imports than for proofs
    status = _run(sys.argv[1:], program)
    for number in _signals("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM"):
        signal.signal(number, signal.SIG_IGN)  # too late to matter
    sys.exit(status)


def _signals(*names: str) -> list[signal.Signals]:
    """Returns the signals known to the system, among the given: Windows has fewer."""
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def _open_closed_streams() -> None:
    """Opens standard streams that the caller has closed, or the next file would get their number.

    Reading standard input and writing standard output still fail, and messages are lost.
    """
    for number, name, access in ((0, "stdin", os.O_WRONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, access)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


def _run(arguments: list[str], program: str) -> int:
    return later.run.run(arguments, program)


def _end(number: int, frame: object) -> NoReturn:
    """Ends the process in order: open files are closed or removed. A second signal of the kind ends it at once."""
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(128 + number)


def _raise_again(ignored: sys.UnraisableHookArgs) -> None:
    """Raises a signal's exception again, a moment later.

    It came in a callback, such as that of a deleted object, where Python only prints exceptions and goes on.
    """
    error = ignored.exc_value
    if not isinstance(error, SystemExit | KeyboardInterrupt) or not hasattr(signal, "setitimer"):
        sys.__unraisablehook__(ignored)
        return

    def again(number: int, frame: object) -> NoReturn:
        raise error

    signal.signal(signal.SIGALRM, again)
    signal.setitimer(signal.ITIMER_REAL, _MOMENT)
