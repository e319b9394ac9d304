"""The page of examples/browser computes in headless Chromium what nnet3 does, from the same samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples.browser.page import expected, missing, watch, write_page
from nnet3.model.nnet import Nnet
from tests.export.samples import RATE, speechlike

NETWORK = """
input name=input dim=40
relu-renorm-layer name=tdnn dim=16 input=Append(-1,0,1)
fast-lstm-layer name=lstm cell-dim=8 delay=-3
output-layer name=output dim=3 param-stddev=5.0
"""


@pytest.mark.skipif(missing() != "", reason=f"the page needs {missing()}")
def test_posteriors_in_a_browser(tmp_path: Path) -> None:
    nnet, samples = Nnet.from_xconfig(NETWORK, seed=1), speechlike(12_345)
    write_page(tmp_path / "page", nnet, samples, RATE, ["a", "b", "-"])
    rows, words = watch(tmp_path / "page", tmp_path / "page.png")
    wanted = expected(nnet, samples, RATE)
    assert rows.shape == wanted.shape == (52, 3)
    assert wanted.std(axis=0).min() > 0.1
    np.testing.assert_allclose(rows, wanted, rtol=1e-4, atol=1e-4)
    assert set(words) <= {"a", "b"}
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
