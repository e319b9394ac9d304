"""Makes the page of a network: what the verb `explore` does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from nnet3 import cn
from nnet3.base.kaldi_io.files import check_can_write, write_atomically
from nnet3.base.kaldi_io.replacing import PAGE
from nnet3.cli.files import read_network_or_config
from nnet3.cli.messages import print_warnings, say
from nnet3.cli.show_stages import request_of_times
from nnet3.explore import PageServer, explore, run_page


def check_page(page: str) -> None:
    """Raises Nnet3Error now if no page could be written to this file later."""
    check_can_write(page, PAGE)


def write_page(name: str, page: str | None, port: int | None, **options: Any) -> None:
    """Writes the page of a network to a file, or serves it until Ctrl-C; see the options of the verb."""
    if page is not None:
        check_page(page)
    is_run = Path(name).is_dir()
    text = run_page(name) if is_run else _page(name, **options)
    if page is not None:
        write_atomically(page, text.encode())
        say(f"wrote {page}, {len(text.encode()) / 1e6:.1f} MB")
    if port is not None:
        with page_server(lambda: run_page(name) if is_run else text, port) as server:
            say(f"the page is at {server.url}; Ctrl-C ends it")
            server.serve_forever()


@contextlib.contextmanager
def serving_run(folder: str, port: int) -> Iterator[None]:
    """Serves the page of a run inside the block, from a thread; the page is made anew for every request."""
    with page_server(lambda: run_page(folder), port) as server:
        say(f"the page of the run is at {server.url}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def page_server(make: Callable[[], str], port: int) -> PageServer:
    """Returns the server of a page. Raises click.UsageError if the port is taken."""
    try:
        return PageServer(make, port)
    except OSError as error:
        raise click.UsageError(f"--serve={port}: {error.strerror}: give another port, or 0 for any") from None


def _page(
    name: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    frames: int,
    num_sequences: int,
    backward: bool,
    program: bool,
    profiled: bool,
) -> str:
    title = "" if name == "-" else Path(name).name
    if name.endswith((".cn", ".safetensors")):
        if inputs or outputs:
            raise click.UsageError("--input and --output are for nnet3 networks: give --frames")
        network = cn.load(name)
        batch = _random_batch(network, frames, num_sequences) if program else None
        return explore(network, batch, title=title, profiled=profiled)
    nnet = read_network_or_config(name)
    print_warnings(nnet.warnings)
    request = request_of_times(nnet, inputs, outputs, num_sequences, backward, frames) if program else None
    return explore(nnet, request, title=title, profiled=profiled)


def _random_batch(network: cn.Network, frames: int, num_sequences: int) -> dict[str, Any]:
    """Returns random numbers for all inputs: `num_sequences` sequences of `frames` frames, or matrices."""
    generator = np.random.default_rng(0)
    batch: dict[str, Any] = {}
    for node in network.inputs:
        rows, name = node.shape.rows, network.names[node]
        if node.shape.has_samples:
            batch[name] = cn.sequences([generator.random((rows, frames)) for _ in range(num_sequences)])
        else:
            batch[name] = generator.random((rows, node.shape.num_cols or 1))
    return batch
