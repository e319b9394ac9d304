"""Things of the wrong kind given to the public functions: one error of the package that says what is expected."""

import numpy as np
import pytest
import torch

import nnet3
from nnet3.errors import ArgumentError, ExecutionError, Nnet3Error

CONFIG = """
input-node name=input dim=2
component name=affine type=AffineComponent input-dim=4 output-dim=3
component-node name=affine component=affine input=Append(Offset(input, -1), input)
output-node name=output input=affine
"""
WRONG = [
    None,
    3,
    3.5,
    b"x",
    [],
    {},
    object(),
    np.ones((5, 2)),
    torch.ones(5, 2),
    float("nan"),
    nnet3.Nnet.from_config("input-node name=input dim=2\noutput-node name=output input=input"),
    lambda: 1,
]


def _io(name: str, first: int) -> nnet3.IoSpecification:
    return nnet3.IoSpecification(name, [(0, t) for t in range(first, 4)])


NNET = nnet3.Nnet.from_config(CONFIG, seed=0)
REQUEST = nnet3.ComputationRequest([_io("input", -1)], [_io("output", 0)])
COMPUTATION = nnet3.compile(NNET, REQUEST)


def _after_a_run() -> nnet3.NnetComputer:
    computer = nnet3.NnetComputer(COMPUTATION, NNET)
    computer.accept_input("input", torch.ones(5, 2))
    computer.run()
    return computer


CALLS = {
    "from_config": nnet3.Nnet.from_config,
    "path of an ONNX file": lambda wrong: nnet3.export_onnx(NNET, wrong),
    "model for an ONNX file": lambda wrong: nnet3.export_onnx(wrong, 3),
    "options of an ONNX file": lambda wrong: nnet3.export_onnx(NNET, "none/model.onnx", outputs=wrong),
    "load_onnx_metadata": nnet3.load_onnx_metadata,
    "from_config_file": nnet3.Nnet.from_config_file,
    "load": nnet3.load,
    "load_nnet": nnet3.load_nnet,
    "load_transition_model": nnet3.load_transition_model,
    "components.read": nnet3.components.read,
    "save": NNET.save,
    "request to compile": lambda wrong: nnet3.compile(NNET, wrong),
    "request to a cache": lambda wrong: nnet3.ComputationCache().compile(NNET, wrong),
    "name of an IoSpecification": lambda wrong: nnet3.IoSpecification(wrong, [(0, 0)]),
    "inputs by name": lambda wrong: nnet3.ComputationRequest({"a": wrong}, [_io("output", 0)]),
    "outputs": lambda wrong: nnet3.ComputationRequest([_io("input", -1)], [wrong]),
    "a computer's computation": lambda wrong: nnet3.NnetComputer(wrong, NNET),
    "accept_input": lambda wrong: nnet3.NnetComputer(COMPUTATION, NNET).accept_input(wrong, torch.ones(5, 2)),
    "get_output": lambda wrong: _after_a_run().get_output(wrong),
    "type of a component": lambda wrong: nnet3.components.create(wrong, "dim=20"),
    "config of a component": lambda wrong: nnet3.components.create("TanhComponent", wrong),
}
FLAGS = {
    "has_deriv": lambda wrong: nnet3.IoSpecification("input", [(0, 0)], has_deriv=wrong),
    "need_model_derivative": lambda wrong: nnet3.ComputationRequest([], [], need_model_derivative=wrong),
    "optimize": lambda wrong: nnet3.CompileOptions(optimize=wrong),
    "disabled_passes": lambda wrong: nnet3.CompileOptions(disabled_passes=wrong),
    "use_priors": lambda wrong: NNET.compute(torch.ones(5, 2), use_priors=wrong),
}


def _shown(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize("wrong", WRONG, ids=_shown)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_wrong_kind_is_an_error_of_the_package(call, wrong):
    with pytest.raises(Nnet3Error):
        call(wrong)


@pytest.mark.parametrize("wrong", [None, 3, "yes", np.ones((5, 2)), torch.ones(5, 2), object()], ids=_shown)
@pytest.mark.parametrize("call", FLAGS.values(), ids=FLAGS)
def test_a_flag_is_true_or_false(call, wrong):
    with pytest.raises(ArgumentError, match="must be"):
        call(wrong)


@pytest.mark.parametrize("wrong", [3, "x", {}, [], REQUEST, NNET], ids=_shown)
@pytest.mark.parametrize("run", [nnet3.compile, nnet3.ComputationCache().compile], ids=["compile", "cache"])
def test_options_are_compile_options(run, wrong):
    with pytest.raises(ArgumentError, match="options of compile must be CompileOptions"):
        run(NNET, REQUEST, wrong)


@pytest.mark.parametrize("wrong", [3, b"x", [], NNET], ids=_shown)
def test_the_folder_of_a_cache_is_a_path(wrong):
    with pytest.raises(ArgumentError, match="folder of a cache must be a path"):
        nnet3.ComputationCache(folder=wrong)


@pytest.mark.parametrize("wrong", ["", "a\0b", __file__], ids=["empty", "zero byte", "a file"])
def test_the_folder_of_a_cache_can_be_one(wrong):
    with pytest.raises(ArgumentError, match="the folder of a cache must be"):
        nnet3.ComputationCache(folder=wrong)


def test_what_is_no_file_in_the_folder_of_a_cache_is_not_read(tmp_path):
    nnet3.ComputationCache(tmp_path).compile(NNET, REQUEST)
    (entry,) = tmp_path.iterdir()
    entry.unlink()
    entry.symlink_to("/dev/zero")
    with pytest.warns(RuntimeWarning, match="not a file.*compiling again"):
        nnet3.ComputationCache(tmp_path).compile(NNET, REQUEST)
    assert nnet3.ComputationCache(tmp_path).compile(NNET, REQUEST).commands  # replaced by a good one
    assert entry.is_file()


@pytest.mark.parametrize("wrong", [None, "1", -1, float("nan"), [], NNET], ids=str)
def test_the_size_of_a_cache_is_a_number(wrong):
    with pytest.raises(ArgumentError, match="max_bytes of a cache must be"):
        nnet3.ComputationCache(max_bytes=wrong)


def test_a_computer_without_a_network_says_so():
    with pytest.raises(ExecutionError, match="expected a network, got NoneType"):
        nnet3.NnetComputer(COMPUTATION, None)


def test_one_specification_alone_is_to_be_put_in_a_list():
    with pytest.raises(ArgumentError, match="put it in a list"):
        nnet3.ComputationRequest(_io("input", -1), [_io("output", 0)])


RUNNING = {
    "a stream's network": nnet3.StreamComputer,
    "a batch's network": nnet3.BatchComputer,
    "device of streams": lambda wrong: nnet3.StreamComputer(NNET, device=wrong),
    "device of batches": lambda wrong: nnet3.BatchComputer(NNET, device=wrong),
    "scale of scores": lambda wrong: nnet3.StreamComputer(NNET, acoustic_scale=wrong),
    "features by stream": lambda wrong: nnet3.StreamComputer(NNET).accept(wrong),
    "a stream": lambda wrong: nnet3.StreamComputer(NNET).accept({wrong: torch.ones(5, 2)}),
    "utterances": lambda wrong: list(nnet3.BatchComputer(NNET).compute(wrong)),
    "an utterance": lambda wrong: list(nnet3.BatchComputer(NNET).compute([wrong])),
    "cache of a module": lambda wrong: nnet3.TorchModule(NNET, cache=wrong),
    "lengths of a module": lambda wrong: nnet3.TorchModule(NNET).output_lengths(wrong),
    "a file of programs": nnet3.ComputationCache().load,
}


@pytest.mark.parametrize("wrong", ["foo", object(), ("a", 5), torch.nn.Linear], ids=_shown)
@pytest.mark.parametrize("call", RUNNING.values(), ids=RUNNING)
def test_a_wrong_kind_for_what_runs_networks(call, wrong):
    with pytest.raises((Nnet3Error, FileNotFoundError)):
        call(wrong)


@pytest.mark.parametrize("name", ["frame_subsampling_factor", "frames_per_chunk", "num_streams"])
def test_numbers_of_streams_that_would_fill_the_memory(name):
    with pytest.raises(ExecutionError, match=rf"{name} must be within \[1, "):
        nnet3.StreamComputer(NNET, **{name: 10**9})


def test_programs_are_not_read_from_a_device():
    with pytest.raises(Nnet3Error, match="/dev/zero: this is a device, not a file"):
        nnet3.ComputationCache().load("/dev/zero")
