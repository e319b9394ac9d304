"""Networks with packed weights: what they compute, which components they are, what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch

import nnet3
from nnet3.base.native.library import library
from nnet3.base.native.onednn import OneDnnWeights
from nnet3.base.native.panels import Panels
from nnet3.errors import ComponentError, NetworkError, RequestError
from nnet3.kaldi_io import Reader
from nnet3.model.components import packed_affine
from nnet3.model.nnet import AcousticModel, Nnet, conversion
from nnet3.model.nnet.load import read_model
from tests.effort import EFFORT
from tests.native.native_code import needs_native_code
from tests.nnet.model_texts import MDL_TEXT
from tests.random_cases import forward_cases

pytestmark = [
    pytest.mark.skipif(
        library() is None and not torch.backends.mkldnn.is_available(), reason="no native code, and no oneDNN"
    ),
    pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics"),
]

XCONFIG = """
input dim=6 name=input
relu-batchnorm-layer name=first dim=40 input=Append(-1,0,1)
tdnnf-layer name=second dim=40 bottleneck-dim=8 time-stride=3
fast-lstmp-layer name=loop cell-dim=12 recurrent-projection-dim=6 non-recurrent-projection-dim=6 delay=-3
output-layer name=output input=Append(second, loop) dim=5
"""


@pytest.fixture(autouse=True)
def all_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_affine, "_FEWEST_WEIGHTS", 1)
    monkeypatch.setattr(conversion, "packing_is_faster", lambda: True)


def features(frames: int = 60) -> torch.Tensor:
    return torch.randn(frames, 6, generator=torch.Generator().manual_seed(frames))


def network() -> Nnet:
    nnet = Nnet.from_xconfig(XCONFIG, seed=1)
    nnet.components["output.affine"].parameters()["linear_params"].normal_(generator=torch.Generator().manual_seed(1))
    nnet.set_test_mode()
    return nnet


def request_of(frames: int, *, train: bool = False) -> nnet3.ComputationRequest:
    inputs = nnet3.IoSpecification("input", [(0, t) for t in range(-10, frames + 10)])
    outputs = nnet3.IoSpecification("output", [(0, t) for t in range(frames)], has_deriv=train)
    return nnet3.ComputationRequest([inputs], [outputs], need_model_derivative=train)


@pytest.mark.parametrize("block", range(EFFORT))
def test_random_networks_compute_the_same(block: int) -> None:
    compared = 0
    for _, nnet, request, given in forward_cases(range(7000 + 10 * block, 7010 + 10 * block)):
        packed = nnet.pack()
        expected, found = (
            nnet3.NnetComputer(nnet3.compile(each, request), each, check_finite=False).compute(given)
            for each in (nnet, packed)
        )
        for name, rows in expected.items():
            torch.testing.assert_close(found[name], rows, rtol=1e-4, atol=1e-4)
            compared += 1
    assert compared > 5


def test_recurrences_multiply_by_parts_of_packed_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where weights are in panels: parts of other orders do not lie together."""

    def packed() -> set[str]:
        return {name for name, c in network().pack().components.items() if c.type_name.startswith("Packed")}

    others, in_loop = {"first.affine", "second.linear", "second.affine", "output.affine"}, {"loop.W_all", "loop.W_rp"}
    if library() is not None:
        monkeypatch.setattr(packed_affine, "packed", Panels)
        assert packed() == others | in_loop
        program = nnet3.compile(network().pack(), request_of(20))
        kernels = {kernel.name: kernel for kernel in program.kernels}
        assert {"loop.W_all[0:40]", "loop.W_all[40:46]+"} <= set(kernels)
        assert not any(kernel.packs for kernel in kernels.values())
    if torch.backends.mkldnn.is_available():
        monkeypatch.setattr(packed_affine, "packed", OneDnnWeights)
        assert packed() == others


@needs_native_code
@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")
def test_networks_with_panels_are_read_where_none_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of weights are slices of panels: without panels a recurrence multiplies by whole weights."""
    monkeypatch.setattr(packed_affine, "packed", Panels)
    written = pickle.dumps(network().pack(many_rows=True))
    monkeypatch.setattr(packed_affine, "packed", OneDnnWeights)
    torch.testing.assert_close(pickle.loads(written).compute(features()), network().compute(features()))


def test_all_lengths_chunks_minibatches_and_streams() -> None:
    nnet = network()
    packed = nnet.pack()
    for frames in (1, 7, 30, 31, 90):
        torch.testing.assert_close(packed.compute(features(frames)), nnet.compute(features(frames)))
    whole = nnet.compute(features())
    assert whole.std(0).min() > 0.1
    batch = nnet3.BatchComputer(packed, frame_subsampling_factor=1)
    [(_, rows)] = batch.compute([("a", features(), None)])
    torch.testing.assert_close(rows, whole)
    stream = nnet3.StreamComputer(packed, frames_per_chunk=10, frame_subsampling_factor=1).open()
    parts = [stream.accept(features()[:5]), stream.accept(features()[5:]), stream.finish()]
    torch.testing.assert_close(torch.cat(parts), whole)


@needs_native_code
@pytest.mark.parametrize("is_faster", [False, True])
def test_amx_multiplies_many_rows_outside_recurrences(is_faster: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_affine, "packed", Panels)
    monkeypatch.setattr(conversion, "amx_is_faster", lambda: is_faster)
    nnet = network()
    few, packed = nnet.pack(), nnet.pack(many_rows=True)
    for each in (packed, packed.copy(), packed.pack(), pickle.loads(pickle.dumps(packed))):
        found = {name for name, c in each.components.items() if getattr(c, "by_amx", False)}
        assert found == ({"first.affine", "second.linear", "second.affine", "output.affine"} if is_faster else set())
        assert torch.equal(each.compute(features()), packed.compute(features()))
    assert not any(getattr(c, "by_amx", False) for c in few.components.values())
    assert few.fingerprint() == packed.fingerprint()  # they share programs in caches
    torch.testing.assert_close(packed.compute(features()), nnet.compute(features()))


def test_pack_copy_change_pickle_and_then_training_is_refused(tmp_path: Path) -> None:
    nnet = network()
    packed = nnet.pack()
    expected = packed.compute(features())
    nnet.scale_(0.5)
    for twin in (packed, packed.copy(), packed.pack(), pickle.loads(pickle.dumps(packed))):
        assert torch.equal(twin.compute(features()), expected)
    with pytest.raises(RequestError, match=r"but component 'first.affine' has none: its weights are packed"):
        nnet3.compile(packed, request_of(20, train=True))
    with pytest.raises(ComponentError, match="cannot be written, as Kaldi's files have no such weights"):
        packed.save(tmp_path / "out.raw")
    assert not list(tmp_path.iterdir())
    with pytest.raises(NetworkError, match=r"component 'first.affine': its weights are packed; take the network that"):
        packed.quantize()
    with pytest.raises(ComponentError, match="cannot be converted to float64"):
        packed.to(torch.float64)


def test_where_nothing_is_gained_it_is_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "packing_is_faster", lambda: False)
    nnet = network()
    packed = nnet.pack()
    assert packed.info() == nnet.info()
    assert packed is not nnet
    assert all(packed.components[name] is not component for name, component in nnet.components.items())


def test_acoustic_models_are_packed_with_their_priors() -> None:
    model = read_model(Reader(MDL_TEXT.encode(), "final.mdl"))
    assert isinstance(model, AcousticModel)
    twin = model.pack()
    assert twin.transition_model is model.transition_model
    assert twin.nnet.info() == model.nnet.pack().info()
    assert torch.equal(twin.priors, model.priors)
    assert twin.priors is not model.priors
