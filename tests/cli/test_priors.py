"""`am-adjust-priors`: priors become normalised posteriors, none below the floor."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nnet3 import Nnet
from nnet3.cli import files
from nnet3.cli.priors import adjust
from nnet3.errors import Nnet3Error
from tests.cli.run_command import Cli


@pytest.mark.parametrize(("options", "floor"), [((), 1e-15), (("--prior-floor=0.3",), 0.3)])
def test_no_prior_is_below_the_floor(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], floor: float
) -> None:
    nnet = Nnet.from_config("input-node name=input dim=3\noutput-node name=output input=input")
    model = SimpleNamespace(nnet=nnet, priors=np.zeros(0))
    monkeypatch.setattr(files, "load_acoustic_model", lambda name: model)
    monkeypatch.setattr(files, "save_model", lambda *_: None)
    Path("counts.vec").write_text(" [ 0 1 3 ]\n")
    cli.good("am-adjust-priors", *options, "0.mdl", "counts.vec", "1.mdl")
    np.testing.assert_allclose(model.priors, [floor, max(0.25, floor), 0.75], rtol=1e-6)


@pytest.mark.parametrize("counts", ["0 1 nan", "0 1 inf", "-1 3 3", "0 0 0", "1 -1 -1"])
def test_posteriors_are_finite_not_negative_and_not_all_zero(counts: str, tmp_path: Path) -> None:
    nnet = Nnet.from_config("input-node name=input dim=3\noutput-node name=output input=input")
    model = SimpleNamespace(nnet=nnet, priors=np.zeros(0))
    (tmp_path / "counts.vec").write_text(f" [ {counts} ]\n")
    with pytest.raises(Nnet3Error):
        adjust(model, str(tmp_path / "counts.vec"), 0.0)
    assert len(model.priors) == 0


def test_the_largest_change_is_told(tmp_path: Path) -> None:
    nnet = Nnet.from_config("input-node name=input dim=3\noutput-node name=output input=input")
    model = SimpleNamespace(nnet=nnet, priors=np.zeros(0))
    (tmp_path / "counts.vec").write_text(" [ 1 1 2 ]\n")
    assert adjust(model, str(tmp_path / "counts.vec"), 0.0) == ""
    (tmp_path / "counts.vec").write_text(" [ 5 1 4 ]\n")
    assert adjust(model, str(tmp_path / "counts.vec"), 0.0) == "largest change: pdf 0, 0.25 -> 0.5"
    (tmp_path / "counts.vec").write_text(" [ 5 0 5 ]\n")
    assert adjust(model, str(tmp_path / "counts.vec"), 0.0) == "largest change: pdf 1, 0.1 -> 0"
    assert model.priors.dtype == np.float32


def test_as_kaldi_there_is_no_floor(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    nnet = Nnet.from_config("input-node name=input dim=3\noutput-node name=output input=input")
    model = SimpleNamespace(nnet=nnet, priors=np.zeros(0))
    monkeypatch.setattr(files, "load_acoustic_model", lambda name: model)
    monkeypatch.setattr(files, "save_model", lambda *_: None)
    Path("counts.vec").write_text(" [ 1 1 2 ]\n")
    options = ("--kaldi=true", "--prior-floor=0.3")
    assert "did not previously have priors" in cli.good("am-adjust-priors", *options, "0", "counts.vec", "1").err
    Path("counts.vec").write_text(" [ 0 1 3 ]\n")
    said = cli.good("am-adjust-priors", *options, "0", "counts.vec", "1").err
    assert model.priors.tolist() == [0.0, 0.25, 0.75]
    assert "largest absolute difference was for pdf 0, 0.25 -> 0" in said
    assert "K-L divergence from old to new is inf" in said
