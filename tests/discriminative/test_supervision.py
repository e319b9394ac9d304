"""Supervisions in files and merged: golden files byte for byte, text, what cannot be read or merged."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from nnet3.errors import ModelFormatError, TrainingError
from nnet3.kaldi_io import Reader, Writer
from nnet3.training.discriminative.lattice_example import DISCRIMINATIVE_EXAMPLES, DiscriminativeExample, shifted
from nnet3.training.discriminative.supervision import (
    DiscriminativeSupervision,
    DiscriminativeTarget,
    concatenated,
    ids_of_arcs,
    merge_supervisions,
)
from nnet3.training.discriminative.supervision_file import TARGETS
from nnet3.training.examples.chunk_ios import indexes
from nnet3.training.examples.merging import MinibatchSizes, merge_examples
from nnet3.training.examples.sequence_target import merge_targets
from tests.discriminative.golden_discriminative import CASES, DiscriminativeCase, needs_golden, options_of
from tests.discriminative.small_supervision import random_supervision, small_example, worked
from tests.nnet.file_checks import assert_every_cut_is_found

_PROPERTIES = re.compile(rb"(lattice4.{8}).{8}", re.DOTALL)  # of an FST depend on how a program came by it

#: The text of the worked example of the facts.
TEXT = """<NnetDiscriminativeSup> output <I1V> 3 <I1> 0 0 0 <I1> 0 1 0 <I1> 0 2 0 <DiscriminativeSupervision> \
<Weight> 1 <NumSequences> 1 <FramesPerSeq> 3 <NumAli> [ 1 2 3 ]
<DenLat> \n0\t3\t1\t1\t0.5,1\n0\t1\t2\t2\t0.2,2\n1\t4\t3\t3\t0.4,4\n1\t2\t4\t4\t0.3,5
2\t5\t2\t2\t0.6,8\n3\t4\t2\t2\t0.1,3\n4\t5\t3\t3\t0.2,6\n4\t5\t4\t4\t0.9,7\n5

</DiscriminativeSupervision> <DW>  [ 1 0.5019608 0 ]
</NnetDiscriminativeSup> """


def _bytes(example: DiscriminativeExample, binary: bool = True) -> bytes:
    writer = Writer(binary)
    DISCRIMINATIVE_EXAMPLES.write(writer, example)
    return writer.getvalue()


def _written(target: DiscriminativeTarget, binary: bool) -> bytes:
    writer = Writer(binary)
    TARGETS.write(writer, target)
    return writer.getvalue()


def _target() -> DiscriminativeTarget:
    _, supervision, *_ = worked()
    return DiscriminativeTarget("output", indexes(0, 3), supervision, np.array([1, 128 / 255, 0], np.float32))


@needs_golden
@pytest.mark.parametrize("name", CASES)
def test_golden_examples_are_rewritten_byte_for_byte(name: str) -> None:
    case = DiscriminativeCase(name)
    tables = sorted(path.name for path in case.folder.glob("*.ark") if path.stem.startswith(("egs", "merged")))
    for table in tables:
        contents = _PROPERTIES.sub(rb"\1", case.golden(table).read_bytes())
        examples = case.examples(table)
        assert len(examples) > 2
        for key, example in examples.items():
            assert key.encode() + b" \0B" + _PROPERTIES.sub(rb"\1", _bytes(example)) in contents
    for text in case.folder.glob("first_*.txt"):
        key, _, contents = case.golden(text.name).read_bytes().partition(b" ")
        again = DISCRIMINATIVE_EXAMPLES.read(Reader(contents, binary=False))
        assert _bytes(again, binary=False).strip() == contents.strip()


@needs_golden
@pytest.mark.parametrize("name", CASES)
def test_golden_examples_are_merged_and_shifted_to_the_same_bytes(name: str) -> None:
    case = DiscriminativeCase(name)
    singles = case.examples("egs.ark")
    (rule,) = (options_of(line)["minibatch-size"] for line in case.lines("egs.cmd") if "merge" in line)
    merged = list(merge_examples(iter(singles.items()), DISCRIMINATIVE_EXAMPLES, MinibatchSizes.parse(rule)))
    wanted = case.examples("merged.ark")
    assert [key for key, _ in merged] == list(wanted)
    for key, example in merged:
        assert [_written(each, True) for each in example.outputs] == [_written(o, True) for o in wanted[key].outputs]
    for path in case.folder.glob("egs_shift*.ark"):
        moved = case.examples(path.name)
        assert {key: _bytes(shifted(example, int(path.stem[-1]))) for key, example in singles.items()} == {
            key: _bytes(example) for key, example in moved.items()
        }


def test_text_and_size_of_the_worked_example() -> None:
    assert _written(_target(), binary=False).decode() == TEXT
    assert len(_written(_target(), binary=True)) == 551
    for binary in (True, False):
        again = TARGETS.read(Reader(_written(_target(), binary), binary=binary))
        assert again.deriv_weights.tolist() == pytest.approx([1, 0.5019608, 0])
        assert _written(again, True) == _written(_target(), True)


def test_cut_files_are_found_out() -> None:
    contents = _bytes(small_example(np.random.default_rng(0), frames=2))
    header = Writer(binary=True)
    header.header()
    assert_every_cut_is_found(
        header.getvalue() + contents, DISCRIMINATIVE_EXAMPLES.read, len(header.getvalue() + contents) - 1
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<FramesPerSeq> 3", "<FramesPerSeq> 4", "alignment of 3"),
        ("<NumSequences> 1", "<NumSequences> 0", "cannot have 0 sequences"),
        ("<Weight> 1", "<Weight> nan", "weight"),
        ("[ 1 2 3 ]", "[ 1 0 3 ]", "transition-id 0"),
        ("[ 1 0.5019608 0 ]", "[ 1 1.5 0 ]", "at most 1"),
        ("[ 1 0.5019608 0 ]", "[ 1 0 ]", "2 deriv-weights"),
        ("0\t3\t1\t1", "0\t3\t1\t2", "acceptor"),
        ("<I1> 0 1 0 <I1> 0 2 0", "<I1> 0 1 0 <I1> 0 1 0", "equal distances"),
        ("0\t3\t1\t1\t0.5,1", "0\t3\t1\t1\tnan,1", "finite"),
    ],
)
def test_damaged_supervisions_are_refused(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(ModelFormatError, match=message):
        TARGETS.read(Reader(TEXT.replace(old, new, 1).encode(), binary=False))


def test_concatenation_leads_from_ends_to_the_next_start() -> None:
    _, supervision, *_ = worked()
    final = supervision.lattice.fst.final.copy()
    final[5] = 0.75
    first = replace(supervision.lattice, fst=replace(supervision.lattice.fst, final=final))
    found = concatenated([first, supervision.lattice])
    assert (found.fst.num_states, found.fst.num_arcs) == (12, 17)
    (silent,) = np.flatnonzero(ids_of_arcs(found) == 0)
    assert found.fst.cost[silent] == 0.75
    assert found.fst.offsets[found.fst.src[silent]] == silent  # the state's first arc
    assert (found.fst.dst > found.fst.src).all()


def test_what_cannot_be_merged() -> None:
    rng = np.random.default_rng(1)
    one, longer = (random_supervision(rng, 1, frames) for frames in (3, 4))
    cases: list[tuple[list[DiscriminativeSupervision], str]] = [
        ([one, longer], "frames are equal, got 3, 4"),
        ([one, replace(one, weight=2.0)], "weight are equal, got 1, 2"),
        ([one, merge_supervisions([one, one])], "merged already"),
    ]
    for supervisions, message in cases:
        with pytest.raises(ModelFormatError, match=message):
            merge_supervisions(supervisions)
    weighted = DiscriminativeTarget("output", indexes(0, 3), one, np.ones(3, np.float32))
    with pytest.raises(ModelFormatError, match="deriv-weights"):
        merge_targets([weighted, replace(weighted, deriv_weights=np.zeros(0, np.float32))], merge_supervisions)
    with pytest.raises(ModelFormatError, match="other indexes"):
        merge_targets([weighted, replace(weighted, indexes=indexes(3, 3))], merge_supervisions)


def test_merged_examples_are_not_shifted() -> None:
    rng = np.random.default_rng(2)
    merged = DISCRIMINATIVE_EXAMPLES.merge([small_example(rng), small_example(rng)], False)
    assert shifted(merged, 0) is merged
    single = small_example(rng, name="other").outputs[0]
    for outputs in (merged.outputs, (single, *merged.outputs)):
        with pytest.raises(TrainingError, match="merged"):
            shifted(replace(merged, outputs=outputs), 1)


@pytest.mark.parametrize("change", [DISCRIMINATIVE_EXAMPLES.weighted, DISCRIMINATIVE_EXAMPLES.renamed])
def test_changes_of_output(change: Callable[..., DiscriminativeExample]) -> None:
    example = small_example(np.random.default_rng(3))
    if change is DISCRIMINATIVE_EXAMPLES.weighted:
        assert change(example, 0.5).outputs[0].supervision.weight == 0.5
    else:
        assert change(example, "output-en").outputs[0].name == "output-en"
    with pytest.raises(TrainingError, match="no 'output', but other"):
        change(small_example(np.random.default_rng(3), name="other"), 1)
