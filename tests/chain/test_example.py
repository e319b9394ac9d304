"""Chain examples: golden files byte for byte, their text, merging, damage."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnet3.chain import CHAIN_EXAMPLES, ChainExample, ChainTarget, chain_minibatch
from nnet3.errors import ModelFormatError, TrainingError
from nnet3.examples import ExampleReader, NnetIo, example_writer
from nnet3.kaldi_io import CompressedMatrix, Reader, TableReader, TableWriter, Writer
from nnet3.training.chain.example import merge, read_example, size, structure, write_example
from nnet3.training.chain.supervision_file import read_supervision, write_supervision
from nnet3.training.examples.merging import MinibatchSizes, merge_examples
from tests.chain.chain_data import indexes, random_acceptor, small_example, supervision_of
from tests.shared_data import golden_cases

ARCHIVES = [path for case in golden_cases("chain") for path in sorted(case.glob("*.ark")) if path.stem in (
    "egs", "egs_raw", "merged", "egs_shift1", "egs_shift2"
)]  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?")


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def _bytes(example: ChainExample, binary: bool = True) -> bytes:
    writer = Writer(binary)
    writer.header()
    write_example(writer, example)
    return writer.getvalue()


def _example(seed: int = 0, frames: int = 4) -> ChainExample:
    rows = np.stack([np.zeros(6), np.arange(6), np.zeros(6)], axis=1).astype(np.int32)
    io = NnetIo("input", rows, np.random.default_rng(seed).random((6, 2)).astype(np.float32))
    supervision = supervision_of([random_acceptor(seed, frames, 3)], frames, 3)
    return ChainExample((io,), (ChainTarget("output", indexes(1, frames), supervision),))


@pytest.mark.parametrize("path", ARCHIVES, ids=_name)
def test_golden_examples_are_rewritten_byte_for_byte(path: Path, tmp_path: Path) -> None:
    with example_writer(f"ark:{tmp_path}/again.ark", CHAIN_EXAMPLES) as writer:
        for key, example in ExampleReader(f"ark:{path}", CHAIN_EXAMPLES):
            writer.write(key, example)
    assert writer.count > 2
    assert (tmp_path / "again.ark").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("case", [case for case in golden_cases("chain") if (case / "sup.ark").exists()], ids=str)
def test_golden_supervisions_are_rewritten_byte_for_byte(case: Path, tmp_path: Path) -> None:
    with TableWriter(f"ark:{tmp_path}/again.ark", write_supervision) as writer:
        for key, supervision in TableReader(f"ark:{case}/sup.ark", read_supervision):
            writer.write(key, supervision)
    assert (tmp_path / "again.ark").read_bytes() == (case / "sup.ark").read_bytes()


@pytest.mark.parametrize("case", golden_cases("chain", "egs.ark"), ids=lambda case: case.name)
def test_golden_text_is_written_but_for_digits(case: Path) -> None:
    """The same but for the number of digits; and what is read from it is the same."""
    (key, example), *_ = ExampleReader(f"ark:{case}/egs.ark", CHAIN_EXAMPLES)
    text = (case / "first_eg.txt").read_bytes().removeprefix(key.encode() + b" ")
    own_numbers, kaldi_numbers = (
        [float(number) for number in _NUMBER.findall(each)] for each in (_bytes(example, binary=False), text)
    )
    assert own_numbers == pytest.approx(kaldi_numbers, rel=1e-6)
    assert _NUMBER.sub(b"#", _bytes(example, binary=False)) == _NUMBER.sub(b"#", text)
    again = read_example(Reader(text, binary=False))
    outputs = [_bytes(ChainExample(example.inputs, each.outputs), binary=False) for each in (again, example)]
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("case", golden_cases("chain", "egs.ark"), ids=lambda case: case.name)
def test_golden_examples_are_merged_to_the_same_bytes(case: Path) -> None:
    """The bytes, in the same order, also where in the end minibatches of several structures are left."""
    sizes = re.search(r"merge-egs --minibatch-size=(\S+)", (case / "egs.cmd").read_text())
    assert sizes is not None
    singles = ExampleReader(f"ark:{case}/egs.ark", CHAIN_EXAMPLES)
    merged = list(merge_examples(singles, CHAIN_EXAMPLES, MinibatchSizes.parse(sizes.group(1))))
    expected = list(ExampleReader(f"ark:{case}/merged.ark", CHAIN_EXAMPLES))
    assert [(key, _bytes(own)) for key, own in merged] == [(key, _bytes(kaldi)) for key, kaldi in expected]


def test_merging_numbers_sequences() -> None:
    merged = merge([_example(0), _example(1)])
    assert merged.inputs[0].indexes[:, 0].tolist() == [0] * 6 + [1] * 6
    np.testing.assert_array_equal(merged.outputs[0].indexes, indexes(2, 4))
    assert size(merged) == 12
    assert structure(_example(0)) == structure(_example(1))
    assert structure(_example(0)) != structure(_example(0, frames=5))
    single = _example()
    alone = merge([merge([single], compress=True)])  # as in Kaldi, the one of its minibatch is no exception
    assert isinstance(alone.inputs[0].matrix, np.ndarray)
    long = replace(single, inputs=(replace(single.inputs[0], indexes=single.inputs[0].indexes[:1]),))
    assert (size(single), size(long)) == (6, 4)  # of the outputs, if these have more
    assert [type(merge([single] * n, n > 0).inputs[0].matrix) for n in (1, 2)] == [CompressedMatrix] * 2
    assert isinstance(merge([single, single]).inputs[0].matrix, np.ndarray)


def test_examples_with_other_outputs_do_not_merge() -> None:
    other = replace(_example(), outputs=(replace(_example().outputs[0], name="other"),))
    with pytest.raises(ModelFormatError, match="the same outputs"):
        merge([_example(), other])


def test_damage_is_an_error() -> None:
    """Every single-byte change is read, or is a ModelFormatError; nothing else happens."""
    data = _bytes(_example())[2:]
    read = 0
    for position in range(len(data)):
        for value in (0, 255):
            damaged = data[:position] + bytes([value]) + data[position + 1 :]
            try:
                read_example(Reader(damaged, binary=True))
                read += 1
            except ModelFormatError:
                pass
    assert 0 < read < len(data)


@pytest.mark.parametrize(
    ("count", "message"),
    [(0, "cannot have 0"), (-1, "cannot have -1"), (1_000_001, "cannot have 1000001"), (1_000_000, "expected <")],
)
@pytest.mark.parametrize("what", ["Inputs", "Outputs"])
def test_damaged_counts_are_refused(what: str, count: int, message: str) -> None:
    text = _bytes(_example(), binary=False).replace(f"<Num{what}> 1".encode(), f"<Num{what}> {count}".encode())
    with pytest.raises(ModelFormatError, match=message):
        read_example(Reader(text, binary=False))


_DIMS = {"input": 2, "ivector": 3}


def test_inputs_and_targets() -> None:
    example = small_example(packed=True)
    made = chain_minibatch(example, _DIMS, "key")
    assert [io.name for io in made.inputs] == ["input", "ivector"]
    assert made.inputs[0].matrix.shape == (18, 2)
    assert list(made.targets) == list(example.outputs)
    assert (made.key, made.num_sequences) == ("key", 1)


def test_what_is_no_minibatch() -> None:
    example = small_example()
    with pytest.raises(TrainingError, match="none of the network's inputs x, but input, ivector"):
        chain_minibatch(example, {"x": 2})
    with pytest.raises(TrainingError, match="has the inputs input, ivector, but the network has input"):
        chain_minibatch(example, {"input": 2})
    with pytest.raises(TrainingError, match="input 'ivector' has 3 columns in the example, but 100"):
        chain_minibatch(example, {"input": 2, "ivector": 100})
    with pytest.raises(TrainingError, match="twice: output, output"):
        chain_minibatch(replace(example, outputs=example.outputs * 2), _DIMS)
    with pytest.raises(TrainingError, match="twice: input, ivector, input, ivector"):
        chain_minibatch(replace(example, inputs=example.inputs * 2), _DIMS)
    assert chain_minibatch(example, _DIMS).key == ""


def test_inputs_that_are_only_carried_along() -> None:
    carried = replace(small_example().inputs[0], name="__input")
    example = replace(small_example(), inputs=(*small_example().inputs, carried))
    made = chain_minibatch(example, {**_DIMS, "__input": 2})
    assert [io.name for io in made.inputs] == ["input", "ivector"]
