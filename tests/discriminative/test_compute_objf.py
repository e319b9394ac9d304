"""Evaluation on discriminative examples: sums, weights of second outputs, the words of Kaldi's program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from nnet3 import Nnet
from nnet3.base.options.discriminative import DebuggingSums, DiscriminativeOptions
from nnet3.errors import TrainingError
from nnet3.training.chain.example import chain_minibatch
from nnet3.training.discriminative.compute_objf import objf_lines, objf_sums
from nnet3.training.discriminative.criteria import LatticeCriterion
from nnet3.training.discriminative.lattice_example import DISCRIMINATIVE_EXAMPLES
from nnet3.training.discriminative.objective import discriminative_value
from nnet3.training.train.minibatch import Minibatch
from tests.discriminative.small_supervision import small_example, toy_transitions

CONFIG = """
input-node name=input dim=3
component name=affine type=AffineComponent input-dim=9 output-dim=3
component name=softmax type=LogSoftmaxComponent dim=3
component-node name=affine component=affine input=Append(Offset(input, -1), input, Offset(input, 1))
component-node name=softmax component=softmax input=affine
output-node name=output input=affine
output-node name=output-xent input=softmax
"""


def _minibatches(nnet: Nnet) -> list[Minibatch]:
    rng = np.random.default_rng(0)
    merged = [DISCRIMINATIVE_EXAMPLES.merge([small_example(rng) for _ in range(count)], False) for count in (2, 1, 3)]
    return [chain_minibatch(example, nnet.input_dims) for example in merged]


@pytest.mark.parametrize("name", ["mmi", "smbr"])
def test_sums_are_those_of_the_minibatches(name: str) -> None:
    nnet = Nnet.from_config(CONFIG, seed=0)
    criterion = LatticeCriterion(DiscriminativeOptions(criterion=name, l2_regularize=0.01), toy_transitions())
    minibatches = _minibatches(nnet)
    found = objf_sums(nnet, minibatches, criterion)["output"]
    values = []
    for minibatch in minibatches:
        target = minibatch.targets[0]
        times = minibatch.inputs[0].matrix
        rows = nnet.components["affine"]
        inputs = torch.stack(
            [times.reshape(target.supervision.num_sequences, 6, 3)[:, t : t + 3].flatten(1) for t in range(4)]
        )
        output = inputs.flatten(0, 1) @ rows.linear_params.t() + rows.bias_params
        values.append(discriminative_value(output, target.supervision, toy_transitions(), criterion.options))
    assert found.num_frames == found.weight == 24
    assert found.lattice == pytest.approx(sum(value.lattice for value in values), rel=1e-5)
    assert found.l2_term == pytest.approx(sum(value.l2_term for value in values), rel=1e-5)
    assert found.num_count == pytest.approx(sum(value.num_count for value in values), rel=1e-4)


def test_second_outputs_weigh_all_that_came_before() -> None:
    nnet = Nnet.from_config(CONFIG, seed=0)
    criterion = LatticeCriterion(DiscriminativeOptions(criterion="mmi", xent_regularize=0.1), toy_transitions())
    sums = objf_sums(nnet, _minibatches(nnet), criterion)
    assert list(sums) == ["output-xent", "output"]
    assert sums["output-xent"].weight == 8 + 12 + 24
    lines = objf_lines(sums, "mmi", DebuggingSums())
    assert lines[0].startswith("Number of frames is 0 (weighted: 44), average (num or den) posterior per frame is 0")
    assert lines[2].startswith("Overall mmi objective for 'output-xent' is ")
    assert float(lines[2].split()[6]) > 0  # the sign is turned


def test_debugging_sums_are_vectors_by_pdf() -> None:
    nnet = Nnet.from_config(CONFIG, seed=0)
    lines = dict[bool, list[str]]()
    for l2 in (0.0, 0.5):
        criterion = LatticeCriterion(DiscriminativeOptions(criterion="mpfe", l2_regularize=l2), toy_transitions())
        sums = objf_sums(nnet, _minibatches(nnet), criterion)
        debugging = DebuggingSums(accumulate_gradients=True, accumulate_output=True, num_pdfs=3)
        lines[bool(l2)] = objf_lines(sums, "mpfe", debugging)
    plain = lines[False]
    assert [plain[2], plain[4]] == [
        "Vector of average gradients wrt output activations is: ",
        "Average DNN output is: ",
    ]
    assert len(plain[3].split()) == len(plain[5].split()) == 5
    numbers = [[float(number) for number in each[3].split()[1:-1]] for each in lines.values()]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-5)  # without the l2 term
    assert len(objf_lines(sums, "mpfe", DebuggingSums())) == 3


def test_second_outputs_have_vectors_of_zeros() -> None:
    nnet = Nnet.from_config(CONFIG, seed=0)
    criterion = LatticeCriterion(DiscriminativeOptions(criterion="smbr", xent_regularize=0.1), toy_transitions())
    debugging = DebuggingSums(accumulate_gradients=True, accumulate_output=True, num_pdfs=3)
    lines = objf_lines(objf_sums(nnet, _minibatches(nnet), criterion), "smbr", debugging)
    assert [lines[3], lines[5]] == [" [ 0 0 0 ]"] * 2
    assert lines[6].startswith("Overall smbr objective for 'output-xent'")


@pytest.mark.parametrize(("name", "is_error"), [("smbr", True), ("mpfe", True), ("mmi", False)])
def test_outputs_that_are_not_numbers(name: str, is_error: bool) -> None:
    """One minibatch of several: an error, but for mmi without priors, whose average is NaN too."""
    nnet = Nnet.from_config(CONFIG, seed=0)
    criterion = LatticeCriterion(DiscriminativeOptions(criterion=name), toy_transitions())
    first, second, third = _minibatches(nnet)
    second.inputs[0].matrix.fill_(torch.nan)
    second = replace(second, key="bad")
    if is_error:
        with pytest.raises(TrainingError, match=r"minibatch 'bad': output 'output' .* not a number"):
            objf_sums(nnet, [first, second, third], criterion)
        return
    (*_, last) = objf_lines(objf_sums(nnet, [first, second, third], criterion), name, DebuggingSums())
    assert last == "Overall mmi objective for 'output' is nan per frame, over 24 frames."


def test_nothing_to_evaluate() -> None:
    with pytest.raises(TrainingError, match="no examples"):
        objf_sums(Nnet.from_config(CONFIG), [], LatticeCriterion(DiscriminativeOptions(), toy_transitions()))
