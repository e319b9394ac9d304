"""Programs in processes that are forked from one in which PyTorch is loaded already.

A script of bash runs dozens of them, and loading PyTorch takes most of the time of each. Modules of the project are
imported anew in each process, as they are by the installed programs; only what other projects wrote is there before.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_CLIENT = """#!{python} -SEs
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect({address!r})
words = json.dumps([{place!r}, sys.argv, os.getcwd(), dict(os.environ)])
socket.send_fds(server, [words.encode()], [0, 1, 2])
status = server.recv(1)
sys.exit(status[0] if status else "the process was killed")
"""
_LONGEST_MESSAGE = 1 << 17


@contextmanager
def prepared_programs(places: Mapping[str, str]) -> Iterator[Path]:
    """A folder with a program for each name; what it runs is a `module:function`, as in pyproject.toml."""
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder, "socket"))
        programs = Path(folder, "bin")
        programs.mkdir()
        for name, place in places.items():
            path = programs / name
            path.write_text(_CLIENT.format(python=sys.executable, address=address, place=place))
            path.chmod(0o755)
        server = subprocess.Popen([sys.executable, __file__, address], stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield programs
        finally:
            server.kill()
            server.communicate()


def _serve(address: str) -> None:
    import torch  # noqa: F401  (the processes are to have it)

    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: their ends are told through the socket
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(client)
        client.close()


def _answer(client: socket.socket) -> None:
    """Be the program that the client stands for, and end."""
    message, files, _, _ = socket.recv_fds(client, _LONGEST_MESSAGE, 3)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    place, words, folder, environment = json.loads(message)
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
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = 120
    if isinstance(status, int):
        return status
    os.write(2, f"{status}\n".encode())
    return 1


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file
    _serve(sys.argv[1])
