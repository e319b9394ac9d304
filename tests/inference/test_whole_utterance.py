"""`nnet.compute` and `am.compute`: the short way."""

from __future__ import annotations

import gc
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nnet3
from nnet3 import AcousticModel, Nnet
from nnet3.decode import Scoring, UtteranceComputer, UtteranceOptions, compute_utterance
from nnet3.errors import ExecutionError, NetworkError, NumericalError
from nnet3.inference import whole_utterance as whole
from tests.cli.run_command import CONFIG, IVECTOR_CONFIG
from tests.inference.trained_network import FEATURES, trained_network
from tests.shared_data import GOLDEN


def test_two_lines_from_load_to_outputs(tmp_path: Path, new_python: Path) -> None:
    """In a fresh process, where nothing but nnet3 is imported."""
    Nnet.from_config(CONFIG).save(tmp_path / "net.raw")
    code = f"""if True:
        import torch, nnet3
        rows = nnet3.load({str(tmp_path / "net.raw")!r}).compute(torch.ones(7, 3))
        print(tuple(rows.shape), rows.exp().sum(dim=1).sub(1).abs().max().item() < 1e-5)
    """
    process = subprocess.run([new_python, "-c", code], capture_output=True, text=True)
    assert process.stdout == "(7, 4) True\n", process.stderr


def test_it_is_what_an_utterance_computer_gives() -> None:
    nnet = Nnet.from_config(IVECTOR_CONFIG)
    options = {"frame_subsampling_factor": 3, "frames_per_chunk": 6}
    expected = UtteranceComputer(nnet, UtteranceOptions(**options)).compute(FEATURES, torch.ones(2))
    rows = nnet.compute(FEATURES, ivector=np.ones(2), **options)
    assert torch.equal(rows, expected)
    assert torch.equal(nnet.compute(FEATURES, online_ivectors=torch.ones(1, 2), **options), expected)
    assert rows.shape == (4, 4)
    assert not rows.requires_grad


def test_the_network_is_as_before_and_evaluated_in_test_mode() -> None:
    nnet = trained_network()
    first = nnet.compute(FEATURES)
    assert torch.equal(nnet.compute(FEATURES), first)
    assert not nnet.components["norm"].test_mode
    norm = nnet.components["norm"]
    x = torch.full((500, 3), 9.0)
    y, memo = norm.propagate(x)
    norm.store_stats(x, y, memo)
    assert not torch.allclose(nnet.compute(FEATURES), first)  # other statistics


def test_what_is_changed_is_seen() -> None:
    nnet = Nnet.from_config(CONFIG)
    before = nnet.compute(FEATURES)
    nnet.components["affine"].parameters()["linear_params"].mul_(2.0)
    assert not torch.allclose(nnet.compute(FEATURES), before)
    nnet.apply_config("output-node name=output input=affine\n")
    assert not torch.allclose(nnet.compute(FEATURES).exp().sum(dim=1), torch.ones(10))
    nnet.to(dtype=torch.float64)
    assert nnet.compute(FEATURES).dtype == torch.float64


@pytest.mark.parametrize(
    "change",
    [
        lambda norm: setattr(norm, "epsilon", 0.5),
        lambda norm: setattr(norm, "target_rms", 2.0),
        lambda norm: setattr(norm, "count", 2 * norm.count),
        lambda norm: norm.stats_sum.copy_(norm.stats_sum.flip(0)),  # the same sum
        lambda norm: norm.stats_sumsq.mul_(3.0),
        lambda norm: setattr(norm, "stats_sum", norm.stats_sum * 2),
    ],
    ids=["epsilon", "target_rms", "count", "stats_sum in place", "stats_sumsq in place", "stats_sum"],
)
def test_changed_statistics_and_settings_are_seen(change: Callable[[Any], None]) -> None:
    nnet = trained_network()
    before = nnet.compute(FEATURES)
    change(nnet.components["norm"])
    after = nnet.compute(FEATURES)
    assert not torch.equal(after, before)
    assert torch.equal(after, nnet.copy().compute(FEATURES))


def test_what_is_compiled_is_kept_as_long_as_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Nnet] = []
    original = whole.UtteranceComputer
    monkeypatch.setattr(whole, "UtteranceComputer", lambda nnet, *rest: made.append(nnet) or original(nnet, *rest))
    nnet = Nnet.from_config(CONFIG)
    for _ in range(3):
        nnet.compute(FEATURES)
    assert len(made) == 1
    count = len(whole._KEPT)
    made.clear()
    del nnet
    gc.collect()
    assert len(whole._KEPT) < count


def test_an_acoustic_model_with_and_without_priors() -> None:
    am = nnet3.load(GOLDEN / "mdl" / "1" / "final.mdl")
    assert isinstance(am, AcousticModel)
    features = torch.randn(20, 12, generator=torch.Generator().manual_seed(0))
    outputs, scores = am.compute(features), am.compute(features, use_priors=True)
    torch.testing.assert_close(outputs - scores, am.priors.log().expand(20, -1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(am.nnet.compute(features), outputs)
    assert torch.equal(compute_utterance(am, features), outputs)  # priors only if they are asked for
    am.priors = torch.empty(0)
    with pytest.raises(NetworkError, match="this acoustic model has none"):
        am.compute(features, use_priors=True)
    with pytest.raises(NetworkError, match="a raw network has none"):
        am.nnet.compute(features, use_priors=True)
    zeros = torch.full((152,), 0.1)
    zeros[5] = 0.0
    am.priors = zeros
    with pytest.raises(NetworkError, match="the prior of pdf 5 is 0"):
        am.compute(features, use_priors=True)


def test_misspelt_options_and_results_that_are_not_finite() -> None:
    nnet = Nnet.from_config(CONFIG)
    with pytest.raises(ExecutionError, match="there is no option 'frame_per_chunk'; the options are frame_subsampling"):
        nnet.compute(FEATURES, frame_per_chunk=10)
    with pytest.raises(NumericalError, match="not finite, first in row 1, column 0 after exp"):
        Scoring(exponentiate=True).apply(torch.tensor([[1.0], [1000.0]]))
    scoring = Scoring(torch.tensor([1.0, 2.0]), scale=0.5)
    assert scoring.apply(torch.tensor([[3.0, 2.0]])).tolist() == [[1.0, 0.0]]
