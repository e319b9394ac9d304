"""DistributedDataParallel round a module: two processes on one machine, gloo."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import multiprocessing

import nnet3
from tests.train.torch_module.networks import TDNN, features, network

STEPS = 3
multiprocessing.set_forkserver_preload(["nnet3.train", "nnet3.model.nnet", "tests.train.torch_module.networks"])


def _train_both(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    try:
        _train(rank, Path(folder))
        _train_synchronized(rank, Path(folder))
    finally:
        dist.destroy_process_group()


def _train(rank: int, folder: Path) -> None:
    """One of two ranks, which has half of each batch."""
    module = nnet3.TorchModule(network(TDNN, seed=rank))  # made equal by DistributedDataParallel
    parallel = torch.nn.parallel.DistributedDataParallel(module)
    module.tdnn1.norm.eval()  # two ranks normalise by their own minibatches: without that nothing can be equal
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        x = features(4, 6, seed=step)[2 * rank : 2 * rank + 2]
        parallel(x, lengths=[6, 4]).square().mean().backward()
        optimizer.step()
    module.nnet.save(folder / f"rank{rank}.raw")
    module.tdnn1.norm.train()
    for step in range(2):  # running statistics are those of rank 0
        parallel(features(2, 6, seed=10 + rank + 2 * step)).sum().backward()
    with torch.no_grad():
        parallel.module.eval()
        parallel(features(2, 6))
    module.nnet.save(folder / f"statistics{rank}.raw")


def _train_synchronized(rank: int, folder: Path) -> None:
    """As `_train`, with batch-norm in training, and rows of each rank that differ in number."""
    module = nnet3.TorchModule(network(TDNN)).synchronize_batch_norm()
    parallel = torch.nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.001)
    for step in range(STEPS):
        optimizer.zero_grad()
        first, end = ((0, 1), (1, 4))[rank]
        (2 * parallel(features(4, 6, seed=step)[first:end]).square().sum()).backward()  # gradients are averaged
        optimizer.step()
    module.nnet.save(folder / f"synchronized{rank}.raw")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what two ranks have trained; they are forked from one process, which has loaded PyTorch."""
    folder = tmp_path_factory.mktemp("trained")
    multiprocessing.start_processes(_train_both, (str(folder),), nprocs=2, start_method="forkserver")
    return folder


def test_ranks_that_normalise_together_are_one_rank(trained: Path):
    first, second = (nnet3.load(trained / f"synchronized{rank}.raw") for rank in (0, 1))
    module = nnet3.TorchModule(network(TDNN))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.001)
    for step in range(STEPS):
        optimizer.zero_grad()
        module(features(4, 6, seed=step)).square().sum().backward()
        optimizer.step()
    for name, component in module.nnet.components.items():
        for key, expected in component.parameters().items():
            mine, theirs = (nnet.components[name].parameters()[key] for nnet in (first, second))
            assert torch.equal(mine, theirs)
            torch.testing.assert_close(mine, expected, atol=1e-4, rtol=1e-4)
    # Rank 0 has 10 rows at each step, rank 1 has 30, and begins the step with the statistics of rank 0.
    counts = [nnet.components["tdnn1.norm"].count for nnet in (first, second)]
    before = 0.8 * (0.8 * 10 + 10)
    assert counts == pytest.approx([0.8 * (before + 10), 0.8 * (before + 30)])


def _alone() -> nnet3.Nnet:
    module = nnet3.TorchModule(network(TDNN, seed=0))
    module.tdnn1.norm.eval()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        module(features(4, 6, seed=step), lengths=[6, 4, 6, 4]).square().mean().backward()
        optimizer.step()
    return module.nnet


@pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics")
def test_two_ranks_are_one_rank_on_the_joined_batch(trained: Path):
    saved = [nnet3.load(trained / f"rank{rank}.raw") for rank in (0, 1)]
    alone = _alone()
    for name, component in alone.components.items():
        for key, expected in component.parameters().items():
            first, second = (nnet.components[name].parameters()[key] for nnet in saved)
            assert torch.equal(first, second)
            torch.testing.assert_close(first, expected, atol=1e-5, rtol=1e-5)
    norms = [nnet3.load(trained / f"statistics{rank}.raw").components["tdnn1.norm"] for rank in (0, 1)]
    assert norms[0].count == norms[1].count > 0
    assert torch.equal(norms[0].stats_sum, norms[1].stats_sum)
