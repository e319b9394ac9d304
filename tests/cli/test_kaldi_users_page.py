"""docs/kaldi_users.md: its command lines run."""

from __future__ import annotations

import re
import wave
from pathlib import Path

import numpy as np

from nnet3 import Nnet, load
from nnet3.kaldi_io import Posterior, matrix_writer, posterior_writer
from tests.cli.run_command import Cli, Shell
from tests.docs.doctest_page import DOCS
from tests.shared_data import GOLDEN

XVECTOR = """
input name=input dim=12
stats-layer name=stats config=mean(0:1:1:10000)
relu-layer name=tdnn6 dim=4 input=stats
output-layer name=output dim=2
"""


def test_every_command_line_runs(cli: Cli, shell: Shell) -> None:
    model = GOLDEN / "mdl" / "1" / "final.mdl"
    Path("final.mdl").write_bytes(model.read_bytes())
    cli.good("am-copy", "--raw=true", "final.mdl", "final.raw")
    Nnet.from_xconfig(XVECTOR).save("xvector.raw")
    Path("post.vec").write_text(f" [ {' '.join(str(k + 1) for k in range(152))} ]\n")
    with matrix_writer("ark,scp:feats.ark,feats.scp") as writer, posterior_writer("ark:post.ark") as post:
        for key in ("utt1", "utt2"):
            writer.write(key, np.ones((7, 12), np.float32))
            post.write(key, Posterior(np.arange(8), np.zeros(7, np.int32), np.ones(7, np.float32)))
    for key in ("utt1", "utt2"):
        with wave.open(f"{key}.wav", "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(np.random.default_rng(0).integers(-999, 999, 4000).astype("<i2").tobytes())
    Path("wav.scp").write_text("utt1 utt1.wav\nutt2 utt2.wav\n")
    Path("spk2utt").write_text("speaker utt1 utt2\n")
    Path("utt2spk").write_text("utt1 speaker\nutt2 speaker\n")
    blocks = re.findall(r"^```sh\n(.*?)^```$", (DOCS / "kaldi_users.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    outcome = shell("\n".join(blocks))
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.splitlines()[:3] == ["left-context: 1", "left-context: 1", "num-pdfs: 152"]
    assert "2 were there already" in outcome.stderr
    for number in (3, 4, 5):
        load(f"{number}.mdl")
