"""UtteranceComputer: what it takes, test mode, threads, long utterances."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch

from nnet3 import Nnet
from nnet3.decode import UtteranceComputer, UtteranceOptions
from nnet3.errors import ExecutionError, Nnet3Error, NotComputableError
from nnet3.inference import long_utterances as pieces_module, running as running_module
from nnet3.inference.long_utterances import is_the_same_in_pieces
from tests.cli.run_command import CONFIG, IVECTOR_CONFIG
from tests.inference.trained_network import FEATURES, trained_network

RECURRENT = """
    input-node name=input dim=3
    component name=sum type=NoOpComponent dim=3
    component-node name=sum component=sum input=Sum(input, IfDefined(Offset(sum, -1)))
    output-node name=output input=sum
"""
MATRICES: dict[str, Callable[[torch.Tensor], object]] = {
    "array": lambda x: x.numpy(),
    "float64": lambda x: x.double(),
    "float64 array": lambda x: x.double().numpy(),
    "half": lambda x: x.half(),
    "half array": lambda x: x.half().numpy(),
    "bfloat16": lambda x: x.bfloat16(),
    "long double": lambda x: x.numpy().astype(np.longdouble),
    "other byte order": lambda x: x.numpy().astype(">f4"),
    "integers": lambda x: x.int(),
    "small integers": lambda x: x.byte(),
    "integer array": lambda x: x.numpy().astype(np.int64),
    "unsigned array": lambda x: x.numpy().astype(np.uint16),
    "transposed": lambda x: x.T.contiguous().T,
    "transposed array": lambda x: np.asfortranarray(x.numpy()),
    "every second row": lambda x: x.repeat_interleave(2, 0)[::2],
    "backwards array": lambda x: x.flip(0).numpy()[::-1],
    "read-only array": lambda x: np.frombuffer(x.numpy().tobytes(), np.float32).reshape(x.shape),
    "of a gradient": lambda x: (x.clone().requires_grad_() * 1).detach(),
}


@pytest.mark.parametrize("make", MATRICES.values(), ids=MATRICES)
@pytest.mark.filterwarnings("error")
def test_any_real_matrix_is_taken(make: Callable[[torch.Tensor], object]) -> None:
    whole = (30 * FEATURES).round()  # integers below 100
    ivectors = torch.tensor([[3.0, 4.0]])
    computer = UtteranceComputer(Nnet.from_config(IVECTOR_CONFIG))
    expected = computer.compute(whole, ivectors[0])
    assert torch.equal(computer.compute(make(whole), make(ivectors)[0]), expected)  # type: ignore[arg-type, index]
    assert torch.equal(computer.compute(make(whole), online_ivectors=make(ivectors)), expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make", [lambda x: x.requires_grad_(), lambda x: x.requires_grad_() * 1], ids=["leaf", "result"]
)
def test_a_gradient_that_is_not_computed_is_warned_of(make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    computer = UtteranceComputer(Nnet.from_config(CONFIG))
    features = make(FEATURES.clone())
    with pytest.warns(UserWarning, match="the features: this tensor requires grad, .* without autograd"):
        rows = computer.compute(features)
    assert torch.equal(rows, computer.compute(FEATURES))
    with torch.no_grad():
        computer.compute(features)


def test_inference_tensors_may_be_features() -> None:
    computer = UtteranceComputer(Nnet.from_config(CONFIG))
    expected = computer.compute(FEATURES)
    with torch.inference_mode():
        features = FEATURES.clone()
        assert torch.equal(computer.compute(features), expected)
    assert torch.equal(computer.compute(features), expected)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[1.0, 2.0, 3.0]], "the features: expected a tensor or an array, got list"),
        (None, "got NoneType"),
        (torch.zeros(4, 3, dtype=torch.complex64), "expected floats or integers, got torch.complex64"),
        (np.zeros((4, 3), complex), "expected floats or integers, got complex128"),
        (np.array([["a", "b", "c"]]), "expected floats or integers, got <U1"),
        (torch.zeros(4, 3).to_sparse(), "a tensor with layout torch.sparse_coo"),
        (torch.zeros(4, 3, device="meta"), "a tensor without data, on the device 'meta'"),
        (np.ma.masked_array(np.zeros((4, 3)), mask=np.eye(4, 3)), "some elements of this array are masked"),
        (torch.zeros(3), r"the features must be \(frames, 3\), got \(3,\)"),
        (torch.zeros(3, 8), r"must be \(frames, 3\), got \(3, 8\): transpose them$"),
        (torch.zeros(1, 8, 3), r"must be \(frames, 3\), got \(1, 8, 3\): give one utterance at a time$"),
        (torch.zeros(8, 4), r"must be \(frames, 3\), got \(8, 4\)$"),
        (torch.zeros(0, 3), "the utterance has no frames"),
        (torch.tensor([[0.0, 1, 2], [0, np.inf, 0]]), "a NaN or an infinity, first in row 1"),
    ],
)
def test_what_is_refused(features: object, message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        UtteranceComputer(Nnet.from_config(CONFIG)).compute(features)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_are_refused() -> None:
    features = torch.nested.nested_tensor([torch.zeros(4, 3)], layout=torch.strided)
    with pytest.raises(ExecutionError, match="expected a tensor or an array, got a nested tensor"):
        UtteranceComputer(Nnet.from_config(CONFIG)).compute(features)


def test_test_mode_is_a_matter_of_the_computer() -> None:
    nnet = trained_network()
    computer = UtteranceComputer(nnet)
    explicit = nnet.copy()
    explicit.set_test_mode()
    expected = UtteranceComputer(explicit).compute(FEATURES)
    assert torch.equal(computer.compute(FEATURES), expected)
    assert torch.equal(computer.compute(FEATURES[:1]), expected[:1])
    assert not nnet.components["norm"].test_mode
    assert not nnet.components["drop"].test_mode


def test_parameters_that_are_changed_in_place_are_seen() -> None:
    nnet = Nnet.from_config(CONFIG)
    computer = UtteranceComputer(nnet)
    computer.compute(FEATURES)
    nnet.scale_(0.5)
    assert torch.equal(computer.compute(FEATURES), UtteranceComputer(nnet).compute(FEATURES))


def test_threads_take_turns() -> None:
    computer = UtteranceComputer(Nnet.from_config(CONFIG))
    inputs = [torch.full((5 + number % 3, 3), float(number)) for number in range(6)]
    expected = [computer.compute(features) for features in inputs]
    wrong: list[int] = []

    def run(number: int) -> None:
        for _ in range(100):
            if not torch.equal(computer.compute(inputs[number]), expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_utterance_that_cannot_be_computed_does_not_spoil_the_next() -> None:
    config = CONFIG.replace("Append(Offset(input, -1), input)", "Append(Offset(input, -1), ReplaceIndex(input, t, 40))")
    computer = UtteranceComputer(Nnet.from_config(config), UtteranceOptions(extra_right_context=20))
    with pytest.raises(NotComputableError, match="needs input t="):
        computer.compute(FEATURES)
    assert computer.compute(torch.ones(30, 3)).shape == (30, 4)


@pytest.mark.parametrize(
    ("config", "same"),
    [
        (CONFIG, True),
        (IVECTOR_CONFIG, True),
        (RECURRENT, False),
        (CONFIG.replace("Offset(input, -1)", "ReplaceIndex(input, t, 0)"), False),
        (CONFIG.replace("Offset(input, -1)", "Failover(Offset(input, -1), input)"), False),
    ],
)
def test_which_networks_are_the_same_in_pieces(config: str, same: bool) -> None:
    assert is_the_same_in_pieces(Nnet.from_config(config)) == same


@pytest.mark.parametrize("factor", [1, 3])
def test_a_long_utterance_is_computed_in_pieces(monkeypatch: pytest.MonkeyPatch, factor: int) -> None:
    options = UtteranceOptions(frame_subsampling_factor=factor, online_ivector_period=10)
    features = torch.randn(500, 3, generator=torch.Generator().manual_seed(1))
    online = torch.randn(50, 2, generator=torch.Generator().manual_seed(2))
    nnet = Nnet.from_config(IVECTOR_CONFIG)
    whole = UtteranceComputer(nnet, options).compute(features, online_ivectors=online)
    most = 100 * pieces_module.bytes_per_frame(nnet)
    monkeypatch.setattr(running_module, "PIECE_BYTES", most)
    computer = UtteranceComputer(nnet, options)
    torch.testing.assert_close(computer.compute(features, online_ivectors=online), whole)
    assert max(outputs for *_, outputs, _ in computer._runner._computers) < len(whole)
    assert max(each.plan.num_bytes for each in computer._runner._computers.values()) <= most


def test_pieces_are_much_longer_than_their_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as long, however little memory is meant to be used: context is computed again for each."""
    monkeypatch.setattr(running_module, "PIECE_BYTES", 1)
    nnet = Nnet.from_config(CONFIG.replace("Append(Offset(input, -1), input)", "Append(Offset(input, -2), input)"))
    computer = UtteranceComputer(nnet)
    computer.compute(torch.randn(50, 3))
    assert {outputs for *_, outputs, _ in computer._runner._computers} == {20, 10}


def test_chunks_begin_at_multiples_of_the_modulus() -> None:
    """Each chunk begins at t = 0 for the network: elsewhere Round would take other frames."""
    config = CONFIG.replace("Append(Offset(input, -1), input)", "Append(Round(input, 3), input)")
    features, nnet = torch.randn(20, 3), Nnet.from_config(config)
    whole = UtteranceComputer(nnet).compute(features)
    computer = UtteranceComputer(nnet, UtteranceOptions(frames_per_chunk=4))
    torch.testing.assert_close(computer.compute(features), whole)
    assert {outputs for *_, outputs, _ in computer._runner._computers} == {6, 2}
    third = UtteranceComputer(nnet, UtteranceOptions(frames_per_chunk=4, frame_subsampling_factor=2))
    torch.testing.assert_close(third.compute(features), whole[::2])
    assert {outputs for *_, outputs, _ in third._runner._computers} == {3, 1}


@pytest.mark.parametrize(("initial", "final"), [(-1, -1), (0, 0), (4, 3)])
def test_context_at_the_ends_and_between_chunks(initial: int, final: int) -> None:
    """Sums over all that a chunk sees, on either side, tell how much that is."""
    config = """
        input-node name=input dim=1
        component name=sum type=NoOpComponent dim=1
        component-node name=past component=sum input=Sum(input, IfDefined(Offset(past, -1)))
        component-node name=future component=sum input=Sum(input, IfDefined(Offset(future, 1)))
        output-node name=output input=Append(past, future)
    """
    options = UtteranceOptions(
        frames_per_chunk=4, extra_left_context=2, extra_right_context=1,
        extra_left_context_initial=initial, extra_right_context_final=final,
    )  # fmt: skip
    features = torch.randn(10, 1)
    rows = UtteranceComputer(Nnet.from_config(config), options).compute(features)
    for t in range(10):
        start, end = t // 4 * 4, min(t // 4 * 4 + 4, 10)
        left = initial if start == 0 and initial >= 0 else 2
        right = final if end == 10 and final >= 0 else 1
        past, future = range(start - left, t + 1), range(t, end + right)
        expected = [sum(float(features[min(max(k, 0), 9), 0]) for k in times) for times in (past, future)]
        torch.testing.assert_close(rows[t], torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_lengths_that_come_once_share_a_computer() -> None:
    computer = UtteranceComputer(Nnet.from_config(CONFIG))
    features = torch.randn(50, 3)
    whole = computer.compute(features)
    chunked = UtteranceComputer(computer.nnet, UtteranceOptions(frames_per_chunk=60))
    for which, kept in ((computer, [7]), (chunked, [1, 7])):
        for length in (*range(1, 50), 1, 7):
            torch.testing.assert_close(which.compute(features[:length]), whole[:length])
        assert [outputs for *_, outputs, _ in which._runner._computers] == [*kept, 49]


def test_what_depends_on_all_frames_is_computed_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little memory is meant to be used: a sum over the past does not begin again."""
    monkeypatch.setattr(running_module, "PIECE_BYTES", 1)
    features = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    rows = UtteranceComputer(Nnet.from_config(RECURRENT)).compute(features)
    torch.testing.assert_close(rows, features.cumsum(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ivector": torch.zeros(3)}, r"the ivectors must be \(2,\), got \(3,\)"),
        ({"ivector": torch.zeros(1, 2)}, r"the ivectors must be \(2,\), got \(1, 2\)"),
        ({"online_ivectors": torch.zeros(2)}, r"the ivectors must be \(rows, 2\), got \(2,\)"),
        ({"online_ivectors": torch.zeros(0, 2)}, r"the ivectors must be \(rows, 2\), got \(0, 2\)"),
        ({"online_ivectors": torch.tensor([[0.0, 0], [0, torch.nan]])}, "the ivectors have a NaN .* first in row 1"),
        ({"ivector": torch.tensor([0.0, torch.inf])}, "the ivectors have a NaN or an infinity"),
        ({"ivector": torch.zeros(2), "online_ivectors": torch.zeros(1, 2)}, "give one ivector or online ivectors, not"),
        ({}, "the network has an input 'ivector', but none is given"),
    ],
)
def test_ivectors_that_are_refused(given: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        UtteranceComputer(Nnet.from_config(IVECTOR_CONFIG)).compute(FEATURES, **given)


def test_an_ivector_for_a_network_that_has_no_such_input() -> None:
    with pytest.raises(ExecutionError, match="the network has no input 'ivector', but one is given"):
        UtteranceComputer(Nnet.from_config(CONFIG)).compute(FEATURES, torch.zeros(2))


def test_what_needs_too_much_memory_is_refused() -> None:
    computer = UtteranceComputer(Nnet.from_config(RECURRENT), UtteranceOptions(extra_left_context=2_000_000_000))
    with pytest.raises(ExecutionError, match=r"a chunk of 2000000010 frames, .* may need 44.7 GiB of memory, and 4"):
        computer.compute(FEATURES)


def test_online_ivectors_that_end_early() -> None:
    nnet, online = Nnet.from_config(IVECTOR_CONFIG), torch.zeros(6, 2)
    computer = UtteranceComputer(nnet, UtteranceOptions(frames_per_chunk=10))
    assert computer.compute(torch.zeros(110, 3), online_ivectors=online).shape == (110, 4)  # Kaldi tolerates so much
    with pytest.raises(ExecutionError, match="6 online ivectors, one every 10 frames, end long before frame 114"):
        computer.compute(torch.zeros(120, 3), online_ivectors=online)


@pytest.mark.parametrize(
    ("name", "value"), [("frames_per_chunk", -1), ("frame_subsampling_factor", 0), ("extra_left_context", 1.5)]
)
def test_options_that_cannot_be_meant(name: str, value: object) -> None:
    with pytest.raises(ExecutionError, match=name):
        UtteranceOptions(**{name: value})  # type: ignore[arg-type]


def test_a_network_that_is_not_simple() -> None:
    with pytest.raises(Nnet3Error, match="only a simple network"):
        UtteranceComputer(Nnet.from_config(CONFIG.replace("name=output ", "name=posterior ")))
