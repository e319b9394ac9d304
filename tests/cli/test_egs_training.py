"""chain-train, chain-compute-prob, chain-combine: Kaldi's command lines give Kaldi's numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nnet3 import load, load_nnet
from nnet3.chain import CHAIN_EXAMPLES, ChainExample, Fst
from nnet3.examples import ExampleReader, example_writer
from nnet3.model.nnet import Nnet
from tests.cli.run_command import Cli, Shell
from tests.shared_data import GOLDEN, golden_cases, needs_shared

MONO = GOLDEN / "chain" / "mono"
CASES = pytest.mark.parametrize("path", golden_cases("chain", "start.raw"), ids=lambda path: path.name)
_OBJECTIVE = re.compile(r"Overall log-probability for '([\w-]+)' is (\S+) (?:\+ (\S+) = \S+ )?per frame, over (\S+) fr")


def _arguments(line: str, path: Path) -> list[str]:
    """Of a line of Kaldi's, with files of the golden set but for the one to write."""
    _, *options = line.split()
    return [
        option
        if option.startswith("--")
        else option.replace("ark:", f"ark:{path}/")
        if option.startswith("ark:")
        else f"{path}/{option}"
        for option in options
    ]


@needs_shared
@CASES
def test_compute_prob_as_kaldi_does(cli: Cli, path: Path) -> None:
    for line, log in zip((path / "prob.cmd").read_text().splitlines(), ("plain", "full"), strict=True):
        outcome = cli.good("chain-compute-prob", *_arguments(line, path))
        own = {name: numbers for name, *numbers in _OBJECTIVE.findall(outcome.err)}
        kaldi = {name: numbers for name, *numbers in _OBJECTIVE.findall((path / f"prob_{log}.log").read_text())}
        assert own.keys() == kaldi.keys() == {"output", "output-xent"}
        for name, numbers in own.items():
            assert [float(n or 0) for n in numbers] == pytest.approx([float(n or 0) for n in kaldi[name]], rel=1e-4)


@needs_shared
@CASES
def test_combine_as_kaldi_does(cli: Cli, path: Path) -> None:
    *arguments, _ = _arguments((path / "combine.cmd").read_text(), path)
    outcome = cli.good("chain-combine", *arguments, "combined.raw")
    said = re.compile(r"(using the last model|last \d models), objective function is (\S+)|last model is (\S+)")
    wanted = [match.groups() for match in said.finditer((path / "combine.log").read_text())]
    own = [match.groups() for match in said.finditer(outcome.err)]
    assert len(wanted) == 3
    for (*_, one, first), (*_, other, other_first) in zip(own, wanted, strict=False):
        assert float(one or first) == pytest.approx(float(other or other_first), rel=1e-4)
    _compare(load("combined.raw"), load(path / "combined.raw"))


@needs_shared
def test_one_network_is_combined_with_nothing(cli: Cli) -> None:
    files = [MONO / "den.fst", MONO / "plain.raw", f"ark:{MONO}/merged.ark"]
    outcome = cli.good("chain-combine", "--leaky-hmm-coefficient=0.1", *files, "one.raw")
    assert outcome.err.endswith("Finished combining neural nets, wrote model to one.raw\n")
    own, before = load("one.raw"), load(MONO / "plain.raw")
    for name, component in own.components.items():
        for key, tensor in component.parameters().items():
            assert torch.equal(tensor, before.components[name].parameters()[key])
    outcome = cli("chain-combine", *files)
    assert outcome.status == 2
    assert "give the denominator graph, at least one network, the examples, and the file to write" in outcome.err


def _compare(own: Nnet, kaldi: Nnet) -> None:
    compared = 0
    for name, component in own.components.items():
        assert component.test_mode == kaldi.components[name].test_mode, name
        for key, tensor in component.parameters().items():
            wanted = kaldi.components[name].parameters()[key]
            assert float((tensor - wanted).norm()) <= 1e-6 * float(wanted.norm()), f"{name} {key}"
            compared += 1
        if component.has_running_statistics:
            theirs = kaldi.components[name]
            for key in component.statistic_names:
                assert getattr(component, key) == pytest.approx(getattr(theirs, key), rel=1e-4, abs=1e-4), name
    assert compared > 4


@needs_shared
def test_train_as_kaldi_does(cli: Cli) -> None:
    """One run of each kind of options; all runs are compared in tests/chain."""
    line = (MONO / "train_full.cmd").read_text()
    *arguments, _ = _arguments(line, MONO)
    outcome = cli.good("chain-train", *arguments, "full.raw")
    assert re.search(r"Overall average objective function for 'output' is -1.174\d+ \+ -0.00050\d+ = ", outcome.err)
    assert re.search(r"log-prob-per-frame=-1\.174", outcome.err)
    own, kaldi, start = (load(name) for name in ("full.raw", MONO / "full.raw", MONO / "start.raw"))
    for name, component in own.components.items():
        for key, tensor in component.parameters().items():
            wanted, before = (net.components[name].parameters()[key] for net in (kaldi, start))
            assert float((tensor - wanted).norm()) <= 1e-3 * float((wanted - before).norm()) + 1e-6


@needs_shared
def test_mistakes_end_with_a_message(cli: Cli) -> None:
    model, den, egs = MONO / "start.raw", MONO / "den.fst", f"ark:{MONO}/merged.ark"
    outcome = cli("chain-train", model, GOLDEN / "chain" / "biphone" / "den.fst", egs, "x.raw")
    assert outcome.status == 1
    assert "den.fst: the denominator graph has a pdf" in outcome.err
    assert "is it made for another tree?" in outcome.err
    outcome = cli("chain-train", model, MONO / "normalization.fst", egs, "x.raw")
    assert outcome.status == 1
    assert "normalization.fst: every state of the denominator graph ends a sequence at no cost" in outcome.err
    outcome = cli("chain-compute-prob", MONO / "plain.raw", MONO / "phone_lm.fst", egs)
    assert "has none of the label sequences of an example" in outcome.err
    often = "ark:cat " + " ".join([f"{MONO}/merged.ark"] * 3) + "|"
    for verb, *more in (("chain-train", "x.raw"), ("chain-compute-prob",)):
        outcome = cli(verb, MONO / "plain.raw", MONO / "phone_lm.fst", often, *more)
        assert outcome.status == 1
        assert "of the first 3 examples" in outcome.err
        assert "To take it all the same, say --insist-on-den-fst=true" in outcome.err
    cli.good("chain-compute-prob", "--insist-on-den-fst=true", MONO / "plain.raw", MONO / "phone_lm.fst", often)
    outcome = cli("chain-train", model, model, egs, "x.raw")
    assert outcome.status == 1
    assert "OpenFst" in outcome.err
    outcome = cli("chain-train", "--leaky-hmm-coefficient=0", model, den, egs, "x.raw")
    assert outcome.status == 2
    assert "'--leaky-hmm-coefficient': it must be > 0 and < 1, got 0.0" in outcome.err
    outcome = cli("chain-train", model, den, f"ark:{GOLDEN}/chain/biphone/merged.ark", "x.raw")
    assert outcome.status == 1
    outcome = cli("chain-combine", den, model, egs)
    assert outcome.status == 2
    assert not Path("x.raw").exists()


@needs_shared
def test_a_hostile_supervision_is_named(cli: Cli) -> None:
    with example_writer("ark:bad.ark", CHAIN_EXAMPLES) as writer:
        for number, (key, example) in enumerate(ExampleReader(f"ark:{MONO}/merged.ark", CHAIN_EXAMPLES)):
            writer.write(key, _with_an_epsilon(example) if number == 1 else example)
    for verb, more in (("chain-train", ["x.raw"]), ("chain-compute-prob", [])):
        outcome = cli(verb, MONO / "plain.raw", MONO / "den.fst", "ark:bad.ark", *more)
        assert outcome.status == 1
        assert "minibatch 'merged-1-8': the FST of a supervision has epsilons" in outcome.err


def _with_an_epsilon(example: ChainExample) -> ChainExample:
    (target,) = example.outputs
    (fst,) = target.supervision.fsts
    labels = fst.ilabel.copy()
    labels[3] = 0
    changed = Fst.from_arcs(fst.start, fst.final, fst.src, fst.dst, labels, fst.cost)
    return replace(example, outputs=(replace(target, supervision=replace(target.supervision, fsts=(changed,))),))


@needs_shared
def test_a_pipeline_of_a_recipe(shell: Shell) -> None:
    outcome = shell(f"""
        nnet3-chain-train --use-gpu=no --apply-deriv-weights=False --leaky-hmm-coefficient=0.1 --print-interval=10 \\
          --max-param-change=1.4 --numerator-graph-threads=2 {MONO}/start.raw {MONO}/den.fst \\
          'ark:nnet3-chain-merge-egs --minibatch-size=8,4 ark:{MONO}/egs.ark ark:- |' 1.raw
        nnet3-chain-compute-prob 1.raw {MONO}/den.fst ark:{MONO}/merged.ark
    """)
    assert outcome.returncode == 0, outcome.stderr
    assert "Overall log-probability for 'output' is" in outcome.stderr


@needs_shared
def test_the_gradient_of_the_objective_is_a_network(cli: Cli) -> None:
    """Along it the objective grows as its square says, by finite differences."""
    words = ("--leaky-hmm-coefficient=0.1", "--xent-regularize=1.0")
    rest = (MONO / "den.fst", f"ark:{MONO}/merged.ark")
    said = cli.good("chain-compute-prob", *words, "--compute-deriv=true", MONO / "plain.raw", *rest, "gradient.raw").err
    gradient = load_nnet("gradient.raw")
    squares = gradient.squared_norms()
    for name, square in squares.items():
        assert f"Norm of the gradient of '{name}' is {square**0.5:g}" in said
    total, step, sums = sum(squares.values()), 0.0, []
    for sign in (-1, 1):
        moved = load_nnet(MONO / "plain.raw")
        step = 0.5 / total**0.5 / 100
        for own, way in zip(moved.flat_parameters(), gradient.flat_parameters(), strict=True):
            own.add_(way, alpha=sign * step)
        moved.save("moved.raw")
        found = _OBJECTIVE.findall(cli.good("chain-compute-prob", *words, "moved.raw", *rest).err)
        sums.append(sum(float(average) * float(weight) for _, average, _, weight in found))
    assert (sums[1] - sums[0]) / (2 * step) == pytest.approx(total, rel=0.05)
    outcome = cli("chain-compute-prob", MONO / "plain.raw", *rest, "gradient.raw")
    assert (outcome.status, "say --compute-deriv=true" in outcome.err) == (2, True)
