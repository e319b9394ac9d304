"""Programs in processes that are forked from one in which PyTorch is loaded already.

A script of bash runs dozens of them, and loading PyTorch takes most of the time of each. Modules of the project are
imported anew in each process, as they are by the installed programs; only what other projects wrote is there before.
"""

from __future__ import annotations

import _socket
import atexit
import contextlib
import gc
import importlib
import inspect
import marshal
import os
import pkgutil
import re
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

_CLIENT = """#!{python} -SEs
from __future__ import annotations
import _signal, _socket, marshal, os, sys
{ask}
def pass_on(process):
    for each in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        _signal.signal(each, lambda number, _: os.kill(process, number))

files = [None if stream is None else number for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr))]
status = ask({address!r}, {place!r}, sys.argv, os.getcwd(), dict(os.environ), files, pass_on)
sys.exit("the process was killed" if status is None else status)
"""
_LONGEST_MESSAGE = 1 << 17
_ROOT = Path(__file__).resolve().parents[2]


def installed_scripts() -> dict[str, str]:
    """What installation puts on the path: names, and the functions that they call."""
    _, _, section = (_ROOT / "pyproject.toml").read_text().partition("[project.scripts]\n")
    return dict(re.findall(r'^"?([^\s"]+)"? = "(\S+)"$', section.partition("\n[")[0], re.MULTILINE))


def ask(
    address: str,
    place: str,
    words: list[str],
    folder: str,
    environment: dict[str, str],
    files: list[int | None],
    begun: Callable[[int], object] = lambda _: None,
) -> int | None:
    """Let the server run `place` as a program with these words; returns its exit status, None if it was killed.

    `files` are its standard input, output and error, None where they are closed; `begun` gets its process number. The
    source of this function is part of each program, which begins in half the time without the modules above these.
    Raises RuntimeError if there is no server any more.
    """
    numbers = [number for number, file in enumerate(files) if file is not None]
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    message = marshal.dumps([place, numbers, words, folder, environment])
    given = b"".join([file.to_bytes(4, sys.byteorder) for file in files if file is not None])
    try:
        server.connect(address)
        server.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, given)] if given else [])
        process = int.from_bytes(server.recv(4), "little")
    except OSError:
        process = 0
    if not process:
        server.close()
        raise RuntimeError("the server of prepared programs has ended, or could not begin this one: see its errors")
    begun(process)
    server.send(b"go")
    status = server.recv(1)
    server.close()
    return status[0] if status else None


@contextlib.contextmanager
def prepared_programs(places: Mapping[str, str], package: str = "") -> Iterator[Path]:
    """A folder with a program for each name; what it runs is a `module:function`, as in pyproject.toml.

    A program can also be in a module of `tests` or `tools`.
    Beside it is `socket`, the address for `ask`. The modules of `package`, if given, are loaded beforehand too: then
    programs begin at once, and do not show how they import. The first program waits until all is loaded.
    """
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder, "socket"))
        programs = Path(folder, "bin")
        programs.mkdir()
        for name, place in places.items():
            path = programs / name
            path.write_text(
                _CLIENT.format(python=sys.executable, address=address, place=place, ask=inspect.getsource(ask))
            )
            path.chmod(0o755)
        places_of_modules = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": places_of_modules}
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(address)
            listener.listen(64)
            command = [sys.executable, __file__, str(listener.fileno()), package]
            server = subprocess.Popen(command, env=environment, pass_fds=[listener.fileno()])
        try:
            yield programs
        finally:
            server.kill()
            server.wait()


def be_python() -> None:
    """Be `python -c CODE` or `python -m MODULE` with words behind it; what is loaded already is not loaded again."""
    kind, what, *words = sys.argv[1:]
    sys.path.insert(0, os.getcwd())
    sys.argv = [kind if kind == "-c" else what, *words]
    if kind == "-c":
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module(what, run_name="__main__", alter_sys=True)


def _serve(number: str, package: str) -> None:
    import torch.distributed.run  # noqa: F401  (the processes are to have PyTorch)

    if package:
        _import_all(package)
    gc.freeze()  # looking through all of it would copy it in every process
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False  # taking PyTorch's operators down takes a program longer than all else
    listener = socket.socket(fileno=int(number))
    listener.setblocking(True)  # whatever a default timeout has made of it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: their ends are told through the socket
    while True:
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(client)
        client.close()


def _import_all(package: str) -> None:
    """Import the modules of a package but those that start programs and those that need what is not installed."""
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not module.name.endswith(".__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def _answer(client: socket.socket) -> None:
    """Be the program that the client stands for, and end."""
    message, files, _, _ = socket.recv_fds(client, _LONGEST_MESSAGE, 3)
    client.send(os.getpid().to_bytes(4, "little"))
    client.recv(2)
    place, streams, words, folder, environment = marshal.loads(message)
    for number, file in zip(streams, files, strict=True):
        os.dup2(file, number)
        os.close(file)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if number not in streams:  # the caller has closed it: so Python would see it
            os.close(number)
            setattr(sys, name, None)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    status = _status_of(place)
    client.send(bytes([status]))
    os._exit(status)


def _status_of(place: str) -> int:
    """Call the function and end as the interpreter would."""
    module, _, function = place.partition(":")
    status: object = 0
    try:
        getattr(importlib.import_module(module), function)()
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except OSError:
        status = 120
    if isinstance(status, int):
        return status
    os.write(2, f"{status}\n".encode())
    return 1


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file
    _serve(*sys.argv[1:])
