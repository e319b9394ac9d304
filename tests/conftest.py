"""Settings shared by all tests: seeds, hypothesis profile and one PyTorch thread per test process."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import HealthCheck, settings

from nnet3.model.components.random_source import RandomSource
from nnet3.model.xconfig.trained_settings import NoNumbers
from tests.cli.prepared_programs import installed_scripts, prepared_programs
from tests.device import DEVICE
from tests.distribution import BriefWorker, FilesInTurn, let_loggers_propagate, long_ones_first
from tests.effort import EFFORT, draws, redundant
from tests.proved_lowering import lowering_proved
from tests.seeds import SHIFT, seed_all
from tests.shared_data import IS_WHOLE, SHARED

_PYTHON = {"python": "__main__:be_python"}  # that of prepared_programs.py
_PROGRAMS = {
    **_PYTHON,
    **installed_scripts(),
    "torchrun": "torch.distributed.run:main",
    "nnet3-dying-in-training": "tests.torchrun:die_in_training",
    "nnet3-dying-at-a-table": "tests.torchrun:die_at_a_table",
    "train-a-network": "tests.torchrun:train_a_network",
}
#: Programs and what is loaded before they begin. The variables name their folders where a whole run has started them.
_PREPARED = {"NNET3_TEST_PROGRAMS": (_PROGRAMS, "nnet3"), "NNET3_TEST_PYTHON": (_PYTHON, "")}
# Without a database, so that no run depends on the one before it. Examples are the same in every run, or by TEST_SEED.
settings.register_profile(
    "nnet3",
    max_examples=draws(25),
    deadline=None,
    database=None,
    derandomize=SHIFT == 0,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("nnet3")
torch.set_num_threads(1)
if DEVICE.type == "cpu":  # then verbs take no GPU either, in this process and in programs
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
# Every program that a test compiles, in this process and in others, and some of those that are made of them.
os.environ.setdefault("NNET3_PROVE", "some" if EFFORT == 1 else "all")
os.environ.setdefault("NNET3_PROVE_SEED", str(SHIFT or ""))
# Many programs import the same modules: the first one keeps what it has compiled, and so does this process.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
if EFFORT == 1:  # no test takes the power away: what is written need not have reached the disk
    os.fsync = os.fstat  # type: ignore[assignment]  # it fails as fsync does where nothing is open
# What a shell starts in the background does not get interrupts, and nohup keeps hang-ups away; the programs that tests
# start are to get both.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files begin in the order of the items."""
    if config.getvalue("dist") != "load":
        return None
    config.option.loadscopereorder = False
    return FilesInTurn(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """pytest-randomly is for the order of tests alone: its seed is another in each run."""
    if hasattr(config.option, "randomly_reset_seed"):
        config.option.randomly_reset_seed = False
    if SHIFT and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(SHIFT)
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(BriefWorker())
    elif config.args_source is config.ArgsSource.TESTPATHS and config.getoption("numprocesses", None):
        servers = ExitStack()
        config.add_cleanup(servers.close)
        for name, prepared in _PREPARED.items():  # once, while the processes of the tests begin
            os.environ[name] = str(servers.enter_context(prepared_programs(*prepared)))
    gc.disable()  # what is imported and collected stays


def pytest_collectstart(collector: pytest.Collector) -> None:
    """What a module draws while it is imported."""
    seed_all(collector.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[None]:
    """What a fixture draws that many tests share."""
    if fixturedef.scope != "function":
        seed_all(f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param_index', 0)}]")
    return (yield)


def pytest_collection_finish() -> None:
    """No collection of garbage looks again at what stays."""
    let_loggers_propagate(logging.Logger.manager.loggerDict)
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # a few times as rarely as Python does
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave redundant cases to the night, unless a test is named; say why a test has no case.

    pytest does not know that its cases are in a folder that is not there.
    """
    if EFFORT == 1 and not any("::" in argument for argument in config.args):
        left_out = set(redundant(items))
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))
    there_is_none = pytest.mark.skip(reason=f"its cases are in the shared folder, which is not at {SHARED}").mark
    for item in [] if IS_WHOLE else items:
        for place, mark in enumerate(item.own_markers):
            if str(mark.kwargs.get("reason", "")).startswith("got empty parameter set"):
                item.own_markers[place] = there_is_none
    long_ones_first(items)


@pytest.fixture(scope="session")
def programs() -> Iterator[Path]:
    """A folder with the programs that installation puts on the path, python, torchrun, and some for it that die.

    The package is loaded already when they begin: dozens of them are run, and test_startup.py says what each imports.
    """
    with _prepared("NNET3_TEST_PROGRAMS") as folder:
        yield folder


@pytest.fixture(scope="session")
def new_python() -> Iterator[Path]:
    """Python, for programs that load the package themselves; what is loaded already is PyTorch, and what it needs."""
    with _prepared("NNET3_TEST_PYTHON") as folder:
        yield folder / "python"


def _prepared(name: str) -> AbstractContextManager[Path]:
    folder = os.environ.get(name)
    return prepared_programs(*_PREPARED[name]) if folder is None else nullcontext(Path(folder))


@pytest.fixture(scope="module")
def prepared_python(programs: Path) -> Iterator[None]:
    """What starts Python gets that of `programs`."""
    with mock.patch.object(sys, "executable", str(programs / "python")):
        yield


@pytest.fixture
def only_own_garbage() -> None:
    """`gc.collect()` looks at what the test itself makes: all that is there before stays."""
    gc.freeze()


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random matrices of new networks have no memory: to draw or fill millions of numbers takes longer than tests."""
    monkeypatch.setattr(RandomSource, "normal_tensor", NoNumbers.normal_tensor)


@pytest.fixture(scope="session", autouse=True)
def _lowering_proved() -> Iterator[None]:
    with lowering_proved():
        yield


@pytest.fixture(autouse=True)
def _seeded(request: pytest.FixtureRequest) -> None:
    seed_all(request.node.nodeid)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much of the golden data was compared, and why anything was left out."""
    ran = [r for r in terminalreporter.stats.get("passed", []) if "golden" in r.nodeid]
    left_out = [r for r in terminalreporter.stats.get("skipped", []) if "golden" in r.nodeid]
    if ran or left_out:
        terminalreporter.write_line(f"golden data: {len(ran)} comparisons agreed, {len(left_out)} were skipped")
    for reason in sorted({str(r.longrepr[2]) for r in left_out if isinstance(r.longrepr, tuple)}):
        terminalreporter.write_line(f"  {reason}")
