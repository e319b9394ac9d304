"""Verbs about chain examples, against Kaldi's and end to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.general import dense
from nnet3.chain import CHAIN_EXAMPLES, ChainExample
from nnet3.examples import ExampleReader
from nnet3.training.chain.example import structure
from tests.cli.run_command import Cli, Shell
from tests.shared_data import GOLDEN, golden_cases, needs_shared

MONO = GOLDEN / "chain" / "mono"


def _egs(name: str | Path) -> dict[str, ChainExample]:
    with ExampleReader(f"ark:{name}", CHAIN_EXAMPLES) as table:
        return dict(table)


@needs_shared
@pytest.mark.parametrize("path", sorted(GOLDEN.glob("chain/*/copy.cmd")), ids=lambda path: path.parent.name)
def test_copy_egs_as_kaldi_does(cli: Cli, path: Path) -> None:
    """Byte for byte, but for features that had to be decoded, which may differ in the last bit."""
    compared = 0
    for line in path.read_text().splitlines():
        program, *arguments = line.split()
        output = arguments.pop().removeprefix("ark:")
        assert program == "nnet3-chain-copy-egs"
        cli.good("chain-copy-egs", *(a.replace("ark:", f"ark:{path.parent}/") for a in arguments), "ark:own.ark")
        if "context" not in line:
            assert Path("own.ark").read_bytes() == (path.parent / output).read_bytes()
        own, kaldi = _egs("own.ark"), _egs(path.parent / output)
        assert list(own) == list(kaldi)
        for one, other in zip(own.values(), kaldi.values(), strict=True):
            assert structure(one) == structure(other)
            for io, wanted in zip(one.inputs, other.inputs, strict=True):
                assert type(io.matrix) is type(wanted.matrix)
                np.testing.assert_allclose(dense(io.matrix), dense(wanted.matrix), atol=1e-6)
        compared += 1
    assert compared


@needs_shared
def test_merge_copy_shuffle_and_subset(cli: Cli) -> None:
    egs = f"ark:{MONO}/egs.ark"
    outcome = cli.good("chain-merge-egs", "--minibatch-size=8", egs, "ark:merged.ark")
    assert "51 examples made 6 minibatches, 3 were discarded" in outcome.err
    assert {key: len(io.outputs[0].indexes) for key, io in _egs("merged.ark").items()} == {
        key: len(io.outputs[0].indexes) for key, io in _egs(MONO / "merged.ark").items()
    }
    cli.good("chain-merge-egs", "--minibatch-size=1:4", "--compress", egs, "ark:all.ark")
    assert sum(example.outputs[0].supervision.num_sequences for example in _egs("all.ark").values()) == 51
    cli.good("chain-shuffle-egs", "--srand=1", egs, "ark:shuffled.ark")
    keys = list(_egs(MONO / "egs.ark"))
    assert list(_egs("shuffled.ark")) != keys
    assert sorted(_egs("shuffled.ark")) == sorted(keys)
    cli.good("chain-subset-egs", "--n=7", egs, "ark:some.ark")
    assert len(_egs("some.ark")) == 7
    Path("weights").write_text("".join(f"{key} 0.5\n" for key in keys[:9]))
    Path("names").write_text("".join(f"{key} output-2\n" for key in keys[:5]))
    outcome = cli.good("chain-copy-egs", "--weights=ark:weights", "--outputs=ark:names", egs, "ark:1.ark", "ark:2.ark")
    assert "ark:names has no such key" in outcome.err
    assert [list(_egs(name)) for name in ("1.ark", "2.ark")] == [keys[0:5:2], keys[1:5:2]]
    changed = _egs("1.ark")[keys[0]].outputs[0]
    assert (changed.name, changed.supervision.weight) == ("output-2", 0.5)


@needs_shared
def test_examples_of_another_kind(cli: Cli) -> None:
    outcome = cli("chain-merge-egs", f"ark:{golden_cases('train')[0]}/egs.ark", "ark:x")
    assert outcome.status == 1
    assert "expected <Nnet3ChainEg>, got '<Nnet3Eg>'" in outcome.err
    outcome = cli("merge-egs", f"ark:{MONO}/egs.ark", "ark:x")
    assert "expected <Nnet3Eg>, got '<Nnet3ChainEg>'" in outcome.err


@needs_shared
def test_a_pipeline_of_a_recipe(shell: Shell) -> None:
    outcome = shell(f"""
        nnet3-chain-copy-egs --frame-shift=1 ark:{MONO}/egs.ark ark:- | \\
          nnet3-chain-shuffle-egs --buffer-size=5000 --srand=0 ark:- ark:- | \\
          nnet3-chain-merge-egs --minibatch-size=8,4 ark:- ark:merged.ark
        nnet3-chain-subset-egs --n=2 ark:merged.ark ark,t:- | grep -c '<Nnet3ChainEg>'
    """)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout == "2\n"
