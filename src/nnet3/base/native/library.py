"""The C functions of this folder, built at the first use and kept in the user's cache folder.

Without a compiler, or without a folder to write to, PyTorch computes all, and a warning says so once; NNET3_NATIVE=0 in
the environment asks for PyTorch alone.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from nnet3.base.native.codes import BYTES, DEFINITIONS
from nnet3.base.native.own_files import own_folder, private_path, read_own, write_own

_LOG = logging.getLogger("nnet3")
_SOURCES = tuple(
    Path(__file__).with_name(name)
    for name in (
        *("operations.c", "cells.c", "layers.c", "classes.c", "panels.c", "amx.c", "elements.c"),
        *("graphs.c", "tokens.c", "lattices.c", "words.c"),
        *("ngrams.c", "composition.c", "rescoring.c", "rescored.c", "alignment.c", "timed.c", "bayes_risk.c"),
        "levels.c",
    )
)
_HEADERS = tuple(
    Path(__file__).with_name(name)
    for name in (
        *("vectors.h", "numbers.h", "team.h", "columns.h", "rows.h"),
        *("labelled.h", "word_models.h", "alignment.h", "bayes_risk.h", "levels.h"),
    )
)
_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-O3", "-shared", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", *DEFINITIONS)
#: Flags that a compiler may not know; the first set that it takes is used. Without the last of the first set GCC rounds
#: products before it adds them up, for some processors, in some tiles of a matrix and not in others.
_FLAGS_OF_CPU = tuple(
    (*cpu, *of_sums)
    for cpu in (("-march=native", "-mprefer-vector-width=512"), ("-march=native",), ("-mcpu=native",), ())
    for of_sums in (("--param=avoid-fma-max-bits=0",), ())
)
_SECONDS = 300.0  # for the compiler
_CPU_INFO = Path("/proc/cpuinfo")
_ABOUT_CPU = 4096  # bytes of it, which tell of the first core

_SIZE, _POINTER, _FLOAT, _DOUBLE = ctypes.c_int64, ctypes.c_void_p, ctypes.c_float, ctypes.c_double
_MATRIX = _POINTER, _SIZE  # and how many floats its rows lie apart
#: The types of operands and of the result of each function.
FUNCTIONS: Mapping[str, tuple[Sequence[type], type | None]] = {
    "nnet3_run": ((_POINTER, _POINTER, _POINTER, _SIZE, _SIZE, _SIZE, _SIZE, _POINTER, _SIZE), None),
    # Rows, columns, inner size; y, x, the addend, panels; threads.
    "nnet3_panel_product": ((_SIZE, _SIZE, _SIZE, *_MATRIX, *_MATRIX, *_MATRIX, *_MATRIX, _SIZE), None),
    # Rows of y and of x, columns, inner size; y, x, b; panels of offsets, how far panels are apart; blocks; whether AMX
    # multiplies; threads.
    "nnet3_sum_of_blocks": (
        (*4 * (_SIZE,), *_MATRIX, *_MATRIX, _POINTER, _POINTER, _SIZE, _SIZE, _POINTER, *3 * (_SIZE,)),
        _SIZE,
    ),
    # Columns, inner size; panels, weights and the distances of their columns and inner numbers.
    "nnet3_make_panels": ((_SIZE, _SIZE, _POINTER, *_MATRIX, _SIZE), None),
    # Rows, columns, inner size; y, x and weights with two distances each, the addend; the factor, squares, threads.
    "nnet3_product": (
        (_SIZE, _SIZE, _SIZE, *_MATRIX, *_MATRIX, _SIZE, *_MATRIX, _SIZE, *_MATRIX, _FLOAT, _POINTER, _SIZE),
        None,
    ),
    "nnet3_amx_product": (
        (_SIZE, _SIZE, _SIZE, *_MATRIX, *_MATRIX, _SIZE, *_MATRIX, _SIZE, *_MATRIX, _FLOAT, _POINTER, _SIZE),
        _SIZE,
    ),
    "nnet3_has_amx": ((), _SIZE),
    # Rows, cells; y, x, peepholes, whether gates are scaled.
    "nnet3_lstm": ((_SIZE, _SIZE, *_MATRIX, *_MATRIX, _POINTER, _SIZE), None),
    # Rows, cells; x, the derivatives of y and of x, peepholes, whether gates are scaled, self-repair, sums.
    "nnet3_lstm_backward": ((_SIZE, _SIZE, *_MATRIX, *_MATRIX, *_MATRIX, _POINTER, _SIZE, _POINTER, _POINTER), None),
    # Cells; factors and offsets, sums of derivatives, of how many rows; thresholds and scales.
    "nnet3_lstm_repair": ((_SIZE, _POINTER, _POINTER, _DOUBLE, _POINTER), None),
    # Frames, most rows, rows of each frame, cells; values, panels, peepholes, threads.
    "nnet3_lstm_layer": ((_SIZE, _SIZE, _POINTER, _SIZE, *_MATRIX, _POINTER, _POINTER, _SIZE), None),
    # The same, but values and derivatives.
    "nnet3_lstm_layer_backward": (
        (_SIZE, _SIZE, _POINTER, _SIZE, _POINTER, *_MATRIX, _POINTER, _POINTER, _SIZE),
        None,
    ),
    # Rows, cells; y, x, the factor of c'.
    "nnet3_output_gru": ((_SIZE, _SIZE, *_MATRIX, *_MATRIX, _POINTER), None),
    # Rows, cells; x, h, the derivatives of y and of x, the factor of c'.
    "nnet3_output_gru_backward": ((_SIZE, _SIZE, *_MATRIX, *_MATRIX, *_MATRIX, *_MATRIX, _POINTER), None),
    # Rows, columns; y, x, the scale, two limits, rows at a boundary, two counts.
    "nnet3_truncate": ((_SIZE, _SIZE, *_MATRIX, *_MATRIX, _FLOAT, _FLOAT, _FLOAT, _POINTER, _POINTER), None),
    # Rows, columns; x; sums and squares.
    "nnet3_moments": ((_SIZE, _SIZE, *_MATRIX, _POINTER, _POINTER), None),
    # Rows, columns; y, x; means and scales.
    "nnet3_normalize_columns": ((_SIZE, _SIZE, *_MATRIX, *_MATRIX, _POINTER, _POINTER), None),
    # Rows, columns; input or output, its derivative; means, scales; sums of derivatives and of products.
    "nnet3_batch_norm_sums": ((_SIZE, _SIZE, *_MATRIX, *_MATRIX, *4 * (_POINTER,)), None),
    # Rows, columns; the derivative, input or output, its derivative; means, scales, what is subtracted.
    "nnet3_batch_norm_backward": ((_SIZE, _SIZE, *_MATRIX, *_MATRIX, *_MATRIX, *4 * (_POINTER,)), None),
    # Rows, blocks, columns of a block; y, x; epsilon, the root mean square of columns; means, variances, scales.
    "nnet3_batch_norm": ((*3 * (_SIZE,), *_MATRIX, *_MATRIX, _FLOAT, _FLOAT, *3 * (_POINTER,)), None),
    # The same sizes; the derivative, input or output, its derivative; means, scales; the root mean square.
    "nnet3_batch_norm_deriv": ((*3 * (_SIZE,), *_MATRIX, *_MATRIX, *_MATRIX, _POINTER, _POINTER, _FLOAT), None),
    # Rows, columns; y, x; the root mean square of rows.
    "nnet3_normalize_rows": ((_SIZE, _SIZE, *_MATRIX, *_MATRIX, _FLOAT), None),
    # Rows, columns; the derivative, x, the derivative of y; the size and the floor of a mean square.
    "nnet3_normalize_rows_backward": ((_SIZE, _SIZE, *_MATRIX, *_MATRIX, *_MATRIX, _FLOAT, _FLOAT), None),
    # Rows, columns; the derivative, x, y, the derivative of y.
    "nnet3_dropout_backward": ((_SIZE, _SIZE, *_MATRIX, *_MATRIX, *_MATRIX, *_MATRIX), None),
    # The nonlinearity, rows, columns; y; sums of y and of its derivatives.
    "nnet3_output_sums": ((_SIZE, _SIZE, _SIZE, *_MATRIX, _POINTER, _POINTER), None),
    # The nonlinearity, rows, columns; the derivative, y, the derivative of y; sums of its squares.
    "nnet3_output_backward": ((_SIZE, _SIZE, _SIZE, *_MATRIX, *_MATRIX, *_MATRIX, _POINTER), None),
    # Rows, columns; the derivative, y, sums of derivatives, their bound; the offset and the factor of y.
    "nnet3_repair": ((_SIZE, _SIZE, *_MATRIX, *_MATRIX, _POINTER, _DOUBLE, _FLOAT, _FLOAT), _SIZE),
    # Numbers, their memory, classes.
    "nnet3_are_classes": ((_SIZE, _POINTER, _SIZE), _SIZE),
    # Indexes, groups, columns; indexes, groups, sizes; sums, the table, its rows.
    "nnet3_sum_chosen": ((_SIZE, _SIZE, _SIZE, *3 * (_POINTER,), *_MATRIX, *_MATRIX, _SIZE), _SIZE),
    # Indexes, columns; groups, sizes; the derivatives of sums and of chosen rows.
    "nnet3_sum_chosen_backward": ((_SIZE, _SIZE, _POINTER, _POINTER, *_MATRIX, _POINTER), None),
    # Rows, classes; posteriors, scores, the classes of rows; the value.
    "nnet3_class_cross_entropy": ((_SIZE, _SIZE, _POINTER, *_MATRIX, *_MATRIX, _POINTER), _SIZE),
    # Rows, classes; the derivative, posteriors, the classes of rows; that of the value, whether it is added.
    "nnet3_class_cross_entropy_backward": ((_SIZE, _SIZE, *_MATRIX, _POINTER, *_MATRIX, _POINTER, _SIZE), None),
    # Spaces, instructions, templates, their spaces, calls and how long these are, tables.
    "nnet3_run_elements": ((_POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _SIZE, _POINTER), None),
    # Words and their number, two states; the first arcs and final costs of states.
    "nnet3_vector_states": ((_POINTER, _SIZE, _SIZE, _SIZE, _POINTER, _POINTER), _SIZE),
    # Words, the first arcs of states, two states, the number of states; the largest label.
    "nnet3_arcs_are_sound": ((_POINTER, _POINTER, _SIZE, _SIZE, _SIZE, _POINTER), _SIZE),
    # States and their table; their first arcs and final costs.
    "nnet3_const_states": ((_SIZE, *3 * (_POINTER,)), _SIZE),
    # Numbers of words and states; words; offsets, begins and ends of intervals.
    "nnet3_intervals": ((_SIZE, _SIZE, *4 * (_POINTER,)), _SIZE),
    # Numbers of bytes and symbols; bytes; where symbols begin, labels.
    "nnet3_symbols": ((_SIZE, _SIZE, *3 * (_POINTER,)), _SIZE),
    # Tokens and their states and costs, the highest cost, whether they are of the row before.
    "nnet3_row_begin": ((_SIZE, _POINTER, _POINTER, _DOUBLE, _SIZE, _SIZE), _POINTER),
    # The row; the graph, scores, the beam, the most rounds.
    "nnet3_row_go_on": ((_POINTER, _POINTER, _POINTER, _DOUBLE, _SIZE), _SIZE),
    "nnet3_row_sizes": ((_POINTER, _POINTER), None),
    "nnet3_row_states_of_sources": ((_POINTER, _POINTER), None),
    "nnet3_row_end": ((_POINTER, _POINTER), None),
    # Tokens, costs and excess, those of the row behind, the beam; two kinds of links and masks; the new excess, work.
    "nnet3_prune_links": (
        (_SIZE, *4 * (_POINTER,), _DOUBLE, *2 * (_SIZE, *4 * (_POINTER,)), _POINTER, _POINTER),
        _SIZE,
    ),
    # States, arcs; sources and destinations; depths.
    "nnet3_longest_paths": ((_SIZE, _SIZE, *3 * (_POINTER,)), _SIZE),
    # The same, costs; what it costs to begin and to end.
    "nnet3_best_paths": ((_SIZE, _SIZE, *5 * (_POINTER,)), _SIZE),
    # The lattice, the highest cost of a path, the memory, the status.
    "nnet3_determinize": ((_POINTER, _DOUBLE, _POINTER, _POINTER), _POINTER),
    "nnet3_sets_sizes": ((_POINTER, _POINTER), None),
    "nnet3_sets_end": ((_POINTER, _POINTER), None),
    # The lattice, the memory, the status.
    "nnet3_leaps": ((_POINTER, _POINTER, _POINTER), _POINTER),
    "nnet3_leaps_sizes": ((_POINTER, _POINTER), None),
    "nnet3_leaps_end": ((_POINTER, _POINTER), None),
    # Groups and where they begin; values; sums.
    "nnet3_sums_before": ((_SIZE, *3 * (_POINTER,)), None),
    # Pairs, states, histories; intervals; arcs of words, their masses; the number of words, their mass, the last arc.
    "nnet3_words_of_intervals": ((_SIZE, *12 * (_POINTER,)), None),
    # The n-gram model, a key and a history, a word, the cost.
    "nnet3_ngram_arc": ((_POINTER, _POINTER, _SIZE, _POINTER), _SIZE),
    # The lattice, two labels, the most nodes, the status.
    "nnet3_align": ((_POINTER, _SIZE, _SIZE, _SIZE, _POINTER), _POINTER),
    "nnet3_aligned_sizes": ((_POINTER, _POINTER), None),
    "nnet3_aligned_end": ((_POINTER, _POINTER), None),
    # The lattice of words with their rows; labels, rows and confidences.
    "nnet3_least_risk": ((_POINTER, _POINTER), _SIZE),
    # The lattice of transition-ids, the scale of its graph; the most words; labels, rows and confidences.
    "nnet3_heard": ((_POINTER, _DOUBLE, _SIZE, _POINTER), _SIZE),
    # The lattice, models, how many.
    "nnet3_compose": ((_POINTER, _POINTER, _SIZE), _POINTER),
    # A composed lattice, the n-gram model, the RNNLM, beam, growth and scales, the most arcs.
    "nnet3_exchange": ((*4 * (_POINTER,), _SIZE), _SIZE),
    "nnet3_composed_sizes": ((_POINTER, _POINTER), None),
    "nnet3_composed_end": ((_POINTER, _POINTER), None),
    # The lattice of transition-ids, models; sizes.
    "nnet3_rescored": ((_POINTER, _POINTER, _POINTER), _POINTER),
    "nnet3_rescored_end": ((_POINTER, _POINTER), None),
    "nnet3_columns_of_panel": ((), _SIZE),
    "nnet3_size_of_operation": ((), _SIZE),
}

_lock = threading.Lock()
_found: list[ctypes.CDLL | None] = []  # when it has been looked for
_problems: list[str] = []  # why there is none, until that is said


def library(*, warns: bool = True) -> ctypes.CDLL | None:
    """Returns the functions, built if nobody has built them; None where they cannot be built.

    Callers would gain by the functions: unless `warns` is False, a warning tells the first time why no functions exist.
    """
    with _lock:
        if not _found and os.environ.get("NNET3_NATIVE", "") == "0":
            _found.append(None)
        if not _found:
            try:
                _found.append(_kept_or_built())
            except (OSError, subprocess.SubprocessError, RuntimeError, ValueError) as error:
                _found.append(None)
                _problems.append(str(error))
        if warns and _problems:
            _LOG.warning(
                "PyTorch computes all, which takes longer: %s (NNET3_NATIVE=0: no such warning)", _problems.pop()
            )
        return _found[0]


def little_endian_library() -> ctypes.CDLL | None:
    """Returns the functions, without a warning, where numbers lie in memory as in OpenFst's files."""
    return library(warns=False) if sys.byteorder == "little" else None


def kept_beside_library(name: str, make: Callable[[], bytes]) -> bytes:
    """Returns bytes that depend on the library and the processor, from the cache folder; made and kept if they lack.

    A folder that cannot be written to keeps nothing, and nothing is said.
    """
    try:
        compiler, program = _compiler_found()
        name = f"{name}-{_digest(compiler, program)}.measured"
        with own_folder(_folder()) as folder:
            kept = read_own(folder, name)
            if kept is None:
                kept = make()
                write_own(folder, name, kept)
            return kept
    except (OSError, RuntimeError, ValueError):
        return make()


def _kept_or_built() -> ctypes.CDLL:
    """Returns the kept library, or builds and keeps one.

    Raises OSError, SubprocessError, RuntimeError or, for a wrong CC, ValueError if no library can be had.
    """
    compiler, program = _compiler_found()
    name = f"operations-{_digest(compiler, program)}.library"
    with own_folder(_folder()) as folder:
        kept = read_own(folder, name)
        if kept is not None:
            return _load(kept)
        made = _compiled([program, *compiler[1:]])
        found = _load(made)
        write_own(folder, name, made)  # whoever builds at the same time puts the same there
        return found


def _compiler_found() -> tuple[list[str], str]:
    """Returns the compiler's command and the path of its program.

    Raises RuntimeError without a compiler, ValueError for a wrong CC.
    """
    compiler = shlex.split(os.environ.get("CC", "")) or _compiler()
    program = shutil.which(compiler[0])
    if program is None:
        raise RuntimeError(f"there is no C compiler '{compiler[0]}': install one, or pip install 'nnet3[native]'")
    return compiler, program


def _compiler() -> list[str]:
    """Returns the command of the system's compiler, or else of the compiler in the package ziglang."""
    found = next(filter(shutil.which, _COMPILERS), None)
    ziglang = find_spec("ziglang") if found is None else None
    if ziglang is not None and ziglang.origin is not None:
        return [str(Path(ziglang.origin).with_name("zig")), "cc"]
    return [found or _COMPILERS[0]]


def _folder() -> Path:
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():
        return given / "nnet3"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "nnet3"


def _digest(compiler: list[str], program: str) -> str:
    """Returns what the library depends on: source, flags, compiler, processor."""
    status = os.stat(program)
    about = platform.processor().encode()
    if _CPU_INFO.exists():
        with _CPU_INFO.open("rb") as file:
            about = file.read(_ABOUT_CPU)
    # Its frequency changes all the time.
    about = b"\n".join(line for line in about.splitlines()[:-1] if not line.startswith((b"cpu MHz", b"bogomips")))
    settings = repr((_FLAGS, _FLAGS_OF_CPU, compiler, os.path.realpath(program), status.st_mtime_ns, status.st_size))
    sources = [source.read_bytes() for source in (*_SOURCES, *_HEADERS)]
    parts = (*sources, settings.encode(), f"{sys.platform} {platform.machine()}".encode(), about)
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).hexdigest()


def _compiled(compiler: list[str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "library.so"
        environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": folder, "ZIG_LOCAL_CACHE_DIR": folder}
        for flags in _FLAGS_OF_CPU:
            command = [*compiler, *_FLAGS, *flags, "-o", str(target), *map(str, _SOURCES), "-lm"]
            done = subprocess.run(
                command,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
            if done.returncode == 0:
                return target.read_bytes()
    raise RuntimeError(f"'{' '.join(command)}' fails: {done.stderr.strip()[-500:]}")


def _load(contents: bytes) -> ctypes.CDLL:
    """Returns the library with the given contents. Raises OSError or RuntimeError for a foreign library."""
    with private_path(contents) as path:
        found = ctypes.CDLL(path)
    try:
        for name, (operands, result) in FUNCTIONS.items():
            function = getattr(found, name)
            function.argtypes, function.restype = operands, result
        num_bytes = found.nnet3_size_of_operation()
    except AttributeError as error:
        raise RuntimeError(f"the library is damaged: {error}") from None
    if num_bytes != BYTES:
        raise RuntimeError(f"the library has operations of {num_bytes} bytes, not {BYTES}")
    return found
