"""docs/examples.md: its command lines and its Python run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from nnet3.examples import EXAMPLES, ExampleReader
from nnet3.kaldi_io import Posterior, int_vector_writer, matrix_writer, posterior_writer
from tests.cli.run_command import Shell
from tests.docs.doctest_page import DOCS, run_page


def _keys(name: str) -> list[str]:
    with ExampleReader(f"ark:{name}", EXAMPLES) as table:
        return [key for key, _ in table]


def test_commands_and_python(shell: Shell) -> None:
    rng = np.random.default_rng(0)
    with (
        matrix_writer("ark,scp:feats.ark,feats.scp") as feats,
        posterior_writer("ark:post.ark") as post,
        int_vector_writer("ark:pdf.ark") as pdf,
        matrix_writer("ark:targets.ark") as targets,
    ):
        for key in ("utt1", "utt2", "utt3"):
            ids = rng.integers(40, size=60).astype(np.int32)
            feats.write(key, rng.normal(size=(60, 13)))
            post.write(key, Posterior(np.arange(61), ids, np.ones(60, np.float32)))
            pdf.write(key, ids)
            targets.write(key, rng.normal(size=(60, 3)))
    blocks = re.findall(r"^```sh\n(.*?)^```$", (DOCS / "examples.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    outcome = shell("\n".join(blocks))
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.startswith("utt1-0 <Nnet3Eg> <NumIo> 2 <NnetIo> input <I1V> 30 <I1> 0 -5 0")
    keys = _keys("egs.ark")
    assert len(keys) == 9
    assert [_keys("merged.ark"), len(_keys("valid.ark"))] == [["merged-0-8", "merged-1-1"], 3]
    assert sorted(_keys("shuffled.ark")) == sorted(keys)
    assert _keys("frames.1.ark") == keys[0::2]
    for name in ("aligned.ark", "dense.ark", "half.ark"):
        assert Path(name).stat().st_size > 100
    assert run_page("examples.md") == 12
