"""Utterances of any length, one after the other on one computer: whole, and in pieces where memory asks for them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

import nnet3
from nnet3 import ComputationRequest, IoSpecification, Nnet, NnetComputer
from nnet3.decode import UtteranceComputer, UtteranceOptions
from nnet3.errors import ExecutionError
from nnet3.inference import running as running_module
from nnet3.inference.long_utterances import is_the_same_in_pieces
from nnet3.inference.running import ChunkRunner
from tests.effort import EFFORT, draws
from tests.seeds import shifted

Utterance = tuple[Tensor, ...]  # features, and the ivector where there is one

TDNN = """
    input-node name=input dim=4
    component name=wide type=TdnnComponent input-dim=4 output-dim=30 time-offsets=-3,0,3
    component name=relu type=RectifiedLinearComponent dim=30
    component name=narrow type=TdnnComponent input-dim=30 output-dim=5 time-offsets=-1,0,2
    component-node name=wide component=wide input=input
    component-node name=relu component=relu input=wide
    component-node name=narrow component=narrow input=relu
    output-node name=output input=narrow
"""


def _random_network(rng: random.Random, *, recurrent: bool) -> Nnet:
    """A stack of layers of fixed reach, with an ivector or without; some with a recurrence at the end."""
    has_ivector, source = rng.random() < 0.4, "input"
    lines = ["input-node name=input dim=3", "input-node name=ivector dim=3"][: 1 + has_ivector]
    for number in range(rng.randint(1, 3)):
        offsets = sorted(rng.sample(range(-4, 5), rng.randint(1, 3)))
        kind = f"TdnnComponent input-dim=3 output-dim=3 time-offsets={','.join(map(str, offsets))}"
        lines.append(f"component name=tdnn{number} type={kind}")
        lines.append(f"component-node name=tdnn{number} component=tdnn{number} input={source}")
        source = f"tdnn{number}"
        if rng.random() < 0.3:
            source = f"Round({source}, {rng.choice([2, 3])})"
        elif rng.random() < 0.3:
            source = f"Sum({source}, Round(Offset({source}, 1), 2))"
    if has_ivector:
        source = f"Sum({source}, ReplaceIndex(ivector, t, 0))"
    if recurrent:
        source = f"Sum({source}, IfDefined(Offset(last, {rng.choice([-1, 1, -3])})))"
    lines += ["component name=last type=TanhComponent dim=3", f"component-node name=last component=last input={source}"]
    nnet = Nnet.from_config("\n".join([*lines, "output-node name=output input=last"]), seed=rng.randrange(1000))
    assert is_the_same_in_pieces(nnet) != recurrent
    return nnet


def _compiled_alone(nnet: Nnet, utterance: Utterance, factor: int) -> Tensor:
    """The outputs of a program that is compiled for this length."""
    features, last = utterance[0], (len(utterance[0]) - 1) // factor * factor
    times = np.arange(-nnet.left_context, last + nnet.right_context + 1)
    inputs = [IoSpecification("input", [(0, t, 0) for t in times])]
    if len(utterance) > 1:
        inputs.append(IoSpecification("ivector", [(0, 0, 0)]))
    outputs = [IoSpecification("output", [(0, t, 0) for t in range(0, last + 1, factor)])]
    computer = NnetComputer(nnet3.compile(nnet, ComputationRequest(inputs, outputs)), nnet)
    computer.accept_input("input", features[times.clip(0, len(features) - 1)])
    for ivector in utterance[1:]:
        computer.accept_input("ivector", ivector[np.newaxis])
    computer.run()
    return computer.get_output("output")


def _utterances(nnet: Nnet, rng: random.Random) -> Iterator[Utterance]:
    """Features and ivectors of some lengths once, of others again, in any order."""
    lengths = rng.sample(range(1, 120), 6)
    for length in rng.sample([*lengths, *lengths[:2]], 8):
        yield torch.randn(length, 3), *(torch.randn(3) for _ in nnet.input_names[1:])


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("seed", range(4 * EFFORT))
def test_an_utterance_is_what_a_program_for_its_length_gives(seed: int, recurrent: bool) -> None:
    """Whatever was computed before."""
    rng = random.Random(shifted(seed))
    nnet, factor = _random_network(rng, recurrent=recurrent), rng.choice([1, 1, 2, 3])
    computer = UtteranceComputer(nnet, UtteranceOptions(frame_subsampling_factor=factor))
    for utterance in _utterances(nnet, rng):
        expected = _compiled_alone(nnet, utterance, factor)
        torch.testing.assert_close(computer.compute(*utterance), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(4 * EFFORT))
def test_pieces_are_the_same(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """However little memory there is."""
    rng = random.Random(shifted(seed))
    nnet, factor = _random_network(rng, recurrent=False), rng.choice([1, 1, 2, 3])
    monkeypatch.setattr(running_module, "PIECE_BYTES", rng.choice([1, 2000]))
    computer = UtteranceComputer(nnet, UtteranceOptions(frame_subsampling_factor=factor))
    for utterance in [*_utterances(nnet, rng), (torch.randn(1000, 3), *(torch.randn(3) for _ in nnet.input_names[1:]))]:
        expected = _compiled_alone(nnet, utterance, factor)
        torch.testing.assert_close(computer.compute(*utterance), expected, rtol=1e-5, atol=1e-6)
    assert max(outputs for *_, outputs, _ in computer._runner._computers) < 500 / factor


@pytest.mark.parametrize("bound", [40_000, 300_000])
def test_pieces_are_the_longest_for_which_memory_is_enough(monkeypatch: pytest.MonkeyPatch, bound: int) -> None:
    nnet, features = Nnet.from_config(TDNN), torch.randn(5000, 4)
    whole = UtteranceComputer(nnet).compute(features)
    monkeypatch.setattr(running_module, "PIECE_BYTES", bound)
    computer = UtteranceComputer(nnet)
    torch.testing.assert_close(computer.compute(features), whole)
    sizes = [each.plan.num_bytes for each in computer._runner._computers.values()]
    assert 0.9 * bound < max(sizes) <= bound
    most = max(outputs for *_, outputs, _ in computer._runner._computers)
    assert [len(computer._runner.chunks(frames)) for frames in (most, most + 1)] == [1, 2]


def test_pieces_are_no_longer_than_what_is_compiled_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_module, "PIECE_FRAMES", 1000)
    assert [
        chunk.num_outputs for chunk in ChunkRunner(Nnet.from_config(TDNN), UtteranceOptions(), "cpu").chunks(2500)
    ] == [1000, 1000, 500]


@pytest.mark.parametrize("recurrent", [False, True])
def test_memory_is_foreseen(recurrent: bool) -> None:
    """Bytes per frame are found from short utterances."""
    for seed in range(draws(3)):
        computer = UtteranceComputer(_random_network(random.Random(shifted(seed)), recurrent=recurrent))._runner
        (per_frame, more), (frames, size) = computer._memory, computer._size_of(300)
        assert abs(size - (per_frame * frames + more)) < 0.02 * size + 1000


def test_what_is_allowed_is_the_memory_that_is_really_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """All values of a recurrence together would take several times as much."""
    nnet = _random_network(random.Random(shifted(1)), recurrent=True)
    features = (torch.randn(1000, 3), *(torch.randn(3) for _ in nnet.input_names[1:]))
    computer = UtteranceComputer(nnet)
    per_frame, _ = computer._runner._memory
    assert per_frame < 0.5 * computer._runner.bytes_per_frame
    monkeypatch.setattr(running_module, "MAX_BYTES", int(1100 * per_frame))
    torch.testing.assert_close(computer.compute(*features), _compiled_alone(nnet, features, 1), rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(running_module, "MAX_BYTES", int(900 * per_frame))
    with pytest.raises(ExecutionError, match=r"a chunk of 10\d\d frames, .* may need .* GiB of memory, and"):
        computer.compute(*features)


@pytest.mark.parametrize(
    "edit",
    [
        "component name=a type=NaturalGradientAffineComponent input-dim=12 output-dim=5",
        "component name=b type=TanhComponent dim=5\ncomponent-node name=b component=b input=a\n"
        "output-node name=output input=b",
        "component-node name=a component=a input=Append(Offset(input, -3), input, Offset(input, 3))",
    ],
    ids=["component", "node", "context"],
)
def test_computers_of_a_network_that_was_edited_say_so(edit: str) -> None:
    nnet = Nnet.from_config(
        "input-node name=input dim=4\n"
        "component name=a type=NaturalGradientAffineComponent input-dim=12 output-dim=5\n"
        "component-node name=a component=a input=Append(Offset(input, -1), input, Offset(input, 1))\n"
        "output-node name=output input=a\n"
    )
    features = torch.randn(30, 4, generator=torch.Generator().manual_seed(shifted(1)))
    batch, streams = nnet3.BatchComputer(nnet), nnet3.StreamComputer(nnet, 6, 1, 1)
    computer, stream = UtteranceComputer(nnet), streams.open()
    [(_, rows)] = batch.compute([("one", features, None)])
    assert torch.allclose(rows, computer.compute(features))
    assert len(stream.accept(features[:20]))
    nnet.apply_config(edit)
    for use in (
        lambda: list(batch.compute([("one", features, None)])),
        lambda: computer.compute(features),
        lambda: stream.accept(features[20:]),
        streams.open,
    ):
        with pytest.raises(ExecutionError, match="edited since this computer was made: make another"):
            use()
    [(_, rows)] = nnet3.BatchComputer(nnet).compute([("one", features, None)])
    assert torch.allclose(rows, nnet.compute(features))
