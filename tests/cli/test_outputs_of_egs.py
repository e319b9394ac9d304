"""Priors from examples: Kaldi's lines, run here, give Kaldi's files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nnet3 import load
from nnet3.base.kaldi_io.general import dense
from nnet3.examples import EXAMPLES, ExampleReader
from nnet3.kaldi_io import load_vector, open_matrix_table, open_vector_table
from nnet3.model.nnet import AcousticModel
from tests.cli.run_command import Cli
from tests.road_case import RoadCase, needs_road, relative_error, road_cases, run_good
from tests.shared_data import GOLDEN, needs_shared


def _matrices(name: Path | str) -> dict[str, np.ndarray]:
    with open_matrix_table(f"ark:{name}") as table:
        return dict(table)


def _vectors(name: Path | str) -> dict[str, np.ndarray]:
    with open_vector_table(f"ark:{name}") as table:
        return dict(table)


def _model(name: Path | str) -> AcousticModel:
    model = load(name)
    assert isinstance(model, AcousticModel)
    return model


def _check_merged(ours: Path | str, theirs: Path | str) -> None:
    """Equal but for the last bit of decoded features: this Kaldi was built without fused multiply-add."""
    with ExampleReader(f"ark:{ours}", EXAMPLES) as made, ExampleReader(f"ark:{theirs}", EXAMPLES) as expected:
        for (key, example), (wanted_key, wanted) in zip(made, expected, strict=True):
            assert key == wanted_key
            for io, other in zip(example.ios, wanted.ios, strict=True):
                assert (io.name, io.indexes.tolist()) == (other.name, other.indexes.tolist())
                assert type(io.matrix) is type(other.matrix)
                np.testing.assert_allclose(dense(io.matrix), dense(other.matrix), rtol=0, atol=5e-7)


@needs_road
@pytest.mark.parametrize("folder", road_cases("priors"), ids=lambda path: path.name)
def test_kaldis_lines_give_kaldis_files(cli: Cli, folder: Path) -> None:
    case = RoadCase(folder)
    case.take("egs.ark", "1.mdl")
    logs = {line: run_good(line).err for line in case.lines("priors.cmd") if "|" not in line}
    _check_merged("merged.ark", case.golden("merged.ark"))
    for name, tolerance in (("post.ark", 1e-4), ("logprob_test.ark", 1e-5), ("post_test.ark", 1e-5)):
        ours, theirs = _matrices(name), _matrices(case.golden(name))
        assert list(ours) == list(theirs)
        for key, matrix in theirs.items():
            assert relative_error(ours[key], matrix) < tolerance
    run_good(f"nnet3-compute-from-egs {case.golden('1_test.raw')} ark:{folder}/merged.ark ark:theirs.ark")
    for key, matrix in _matrices(folder / "logprob_test.ark").items():  # Kaldi merges fewer layers than we do
        assert relative_error(_matrices("theirs.ark")[key], matrix) < 1e-5
    for name in ("post.vec", "post_test.vec", "both.vec", "average.vec"):
        assert relative_error(load_vector(name), load_vector(case.golden(name))) < 1e-4
    assert relative_error(_model("2.mdl").priors.numpy(), _model(case.golden("2.mdl")).priors.numpy()) < 1e-4
    minibatches, discarded = re.findall(r"->(\d+),d=(\d+)\}$", "\n".join(case.lines("merge.log")), re.MULTILINE)[0]
    merged = next(log for line, log in logs.items() if "merge-egs" in line)
    assert f"50 examples made {minibatches} minibatches, {discarded} were discarded" in merged
    assert "Model did not previously have priors attached." in next(
        log for line, log in logs.items() if line.endswith(" 2.mdl")
    )
    # what comes after posteriors is exact on Kaldi's own ones
    Path("own").mkdir()
    for name, source in (("sums.ark", "post.ark"), ("sums_test.ark", "post_test.ark")):
        run_good(f"matrix-sum-rows ark:{folder}/{source} ark:own/{name}")
        theirs = _vectors(case.golden(name))
        assert list(_vectors(f"own/{name}")) == list(theirs)
        for key, vector in theirs.items():
            assert relative_error(_vectors(f"own/{name}")[key], vector) < 1e-6
    for line in (
        f"vector-sum ark:{folder}/sums.ark own/post.vec",
        f"vector-sum --binary=false --average=true ark:{folder}/sums.ark own/average.vec",
        f"vector-sum ark:{folder}/sums_test.ark own/post_test.vec",
        f"vector-sum {folder}/post.vec {folder}/post_test.vec own/both.vec",
        f"vector-sum ark:{folder}/sums.ark ark:{folder}/sums.ark ark,t:own/twice.txt",
        f"nnet3-am-adjust-priors {folder}/1.mdl {folder}/post.vec own/2.mdl",
        f"nnet3-am-adjust-priors --prior-floor=0.02 {folder}/2.mdl {folder}/post_test.vec own/3.mdl",
    ):
        log = run_good(line).err
    for name in ("post.vec", "average.vec", "post_test.vec", "both.vec"):
        assert relative_error(load_vector(f"own/{name}"), load_vector(folder / name)) < 1e-6
    theirs = _vectors(case.golden("twice.txt"))
    for key, vector in _vectors("own/twice.txt").items():
        assert relative_error(vector, theirs[key]) < 1e-6
    assert relative_error(_model("own/2.mdl").priors.numpy(), _model(folder / "2.mdl").priors.numpy()) < 1e-6
    text = case.golden("3.priors.txt").read_text().partition("[")[2].partition("]")[0]
    np.testing.assert_allclose(_model("own/3.mdl").priors.numpy(), np.array(text.split(), float), rtol=1e-6)
    said = [re.sub(r".*\d\) ", "", line) for line in case.lines("adjust.log")]
    largest, divergence = (line for line in said if "Adjusting" in line)
    assert f"nnet3: {largest}\n" in log
    assert float(log.split()[-1]) == pytest.approx(float(divergence.split()[-1]), rel=1e-3)  # a sum of float32 there
    info = run_good("nnet3-am-info own/3.mdl").out.splitlines()
    assert [line for line in info if "prior" in line] == case.lines("3.info")
    case.check_all_compared()


@needs_shared
def test_an_output_that_is_not_there(cli: Cli) -> None:
    model, egs = GOLDEN / "train" / "tdnn" / "start.raw", f"ark:{GOLDEN / 'train' / 'tdnn' / 'merged.ark'}"
    outcome = cli("compute-from-egs", "--output-name=outptu", model, egs, "ark:out")
    assert outcome.status == 1
    assert "there is no output 'outptu': the network has output" in outcome.err
    assert not Path("out").exists()
    assert "input' has 13 columns in the example, but 3" in cli("compute-from-egs", "net.raw", egs, "ark:out").err
