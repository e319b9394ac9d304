"""`am-adjust-priors`: priors become normalised posteriors, none below the floor."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cli.run_command import Cli
from nnet3 import Nnet
from nnet3.cli import files


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
