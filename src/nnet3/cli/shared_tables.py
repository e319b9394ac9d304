"""Shares the utterances of a table among processes started by torchrun.

A process writes an archive of its own, which grows entry by entry; the first process writes the script of all at the
end. Processes restarted by torchrun go on from the entries in the archives.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from nnet3.base.kaldi_io.files import write_atomically
from nnet3.base.kaldi_io.script import read_script
from nnet3.base.kaldi_io.specifiers import parse_rspecifier, parse_rxfilename, parse_wspecifier
from nnet3.base.kaldi_io.table_values import matrix_writer, open_matrix_table
from nnet3.cli.compute_tables import ComputedTables, Runner, compute_share, conclude
from nnet3.cli.tally import UtteranceTally
from nnet3.errors import TableError
from nnet3.training.runs.process_group import joined_processes

_MEETING_SECONDS = 30 * 60.0
_WAITING_SECONDS = 7 * 24 * 3600.0  # for the process that is the last to finish


def compute_shared(tables: ComputedTables, run: Runner) -> None:
    """Computes the utterances of a table together with the other processes; see `compute_tables`."""
    specifier = parse_wspecifier(tables.output)
    if specifier.archive is None or specifier.script is None:
        raise TableError(f"{tables.output}: several processes write an archive each, and a script: give ark,scp:")
    kinds = tables.output.partition(":")[0]
    with joined_processes("cpu", _MEETING_SECONDS, _WAITING_SECONDS) as group:
        parts = [f"{kinds}:{_part(specifier.archive, n)},{_part(specifier.script, n)}" for n in range(group.size)]
        if group.is_first and not (tables.resume or group.was_restarted):
            for path in (*_parts(specifier.archive), *_parts(specifier.script)):
                path.unlink()
        own_script = _part(specifier.script, group.rank)
        done = group.tell(_lines(_parts(specifier.script)) if group.is_first else None)
        sizes = table_sizes(tables.features)
        share = shares({key: size for key, size in sizes.items() if key not in done}, group.size)[group.rank]
        mine = {entry.key for entry in read_script(own_script)} if os.path.exists(own_script) else set()
        own = replace(tables, output=parts[group.rank], resume=True, writer=partial(matrix_writer, grows=True))
        tally = compute_share(own, run, share | mine)
        numbers = group.gather((tally.done, tally.failed, tally.damaged, tally.resumed, tally.frames))
        if group.is_first:
            lines = _lines(_parts(specifier.script))
            write_atomically(specifier.script, [lines[key] for key in sizes if key in lines])
            _say_all(tables, numbers, tally)
        group.tell(None)


def table_sizes(rspecifier: str) -> dict[str, int]:
    """Returns the sizes of the entries of a table of features: in bytes, where a script has offsets, else in frames.

    Raises TableError for a table that cannot be read twice.
    """
    specifier = parse_rspecifier(rspecifier)
    if specifier.script is not None:
        entries = read_script(specifier.script)
        files = {entry.key: parse_rxfilename(entry.name) for entry in entries}
        return _byte_sizes({key: (each.name, each.offset) for key, each in files.items()})
    if parse_rxfilename(specifier.archive or "").kind != "file":
        raise TableError(f"{rspecifier}: several processes need features that each of them can read: give scp:")
    with open_matrix_table(rspecifier) as table:
        return {key: len(rows) for key, rows in table}


def _byte_sizes(files: Mapping[str, tuple[str, int]]) -> dict[str, int]:
    """Returns the bytes from the position of each entry to the next entry in its file, or to the end."""
    ends: dict[str, list[int]] = {}
    for name, offset in files.values():
        ends.setdefault(name, [os.path.getsize(name) if os.path.isfile(name) else offset + 1]).append(offset)
    after = {name: dict(zip(sorted(set(each)), sorted(set(each))[1:], strict=False)) for name, each in ends.items()}
    return {key: after[name].get(offset, offset + 1) - offset for key, (name, offset) in files.items()}


def shares(sizes: Mapping[str, int], number: int) -> list[set[str]]:
    """Returns the keys of `number` shares of nearly equal size: largest entries first, into the smallest share."""
    found: list[set[str]] = [set() for _ in range(number)]
    loads = [(0, share) for share in range(number)]
    for key in sorted(sizes, key=lambda key: -sizes[key]):
        load, share = loads[0]
        found[share].add(key)
        heapq.heapreplace(loads, (load + sizes[key], share))
    return found


def _part(name: str, number: int) -> str:
    """Returns the name of one process's file: out.3.ark for out.ark."""
    path = Path(name)
    return str(path.with_name(f"{path.stem}.{number}{path.suffix}"))


def _parts(name: str) -> list[Path]:
    """Returns the existing files of all processes."""
    found: list[Path] = []
    for number in count():
        path = Path(_part(name, number))
        if not path.exists():
            return found
        found.append(path)
    return found


def _lines(scripts: Iterable[Path]) -> dict[str, bytes]:
    """Returns the line of each key."""
    entries = (entry for script in scripts for entry in read_script(str(script)))
    return {each.key: f"{each.key} {each.name}\n".encode("utf-8", "surrogateescape") for each in entries}


def _say_all(tables: ComputedTables, numbers: list[tuple[int, ...]], tally: UtteranceTally) -> None:
    """Says how many utterances all processes had; `tally` is the local process's."""
    done, failed, damaged, resumed, frames = (
        sum(each) - own for each, own in zip(zip(*numbers, strict=True), numbers[0], strict=True)
    )
    tally.add(done=done, failed=failed, damaged=damaged, resumed=resumed, frames=frames)
    conclude(tables, tally)
