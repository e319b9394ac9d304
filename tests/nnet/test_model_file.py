"""Raw networks in files: Kaldi's bytes, damage, hostile sizes."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import pytest
import torch

from nnet3.errors import ModelFormatError, Nnet3Error
from nnet3.kaldi_io import Reader, Writer
from nnet3.model.nnet import Nnet, load
from nnet3.model.nnet.load import read_model
from nnet3.model.nnet.model_file import read_nnet
from tests.effort import EFFORT
from tests.nnet.file_checks import assert_every_cut_is_found, assert_same_text, change, to_bytes
from tests.nnet.model_texts import RAW_BINARY, RAW_TEXT
from tests.shared_data import GOLDEN

#: Of a file of which the text form is tried by day too.
_MOST_BYTES = 30_000
RAW_FILES = sorted(GOLDEN.glob("random/*/*.raw")) + sorted(GOLDEN.glob("recipe/*/*.raw"))
RAW_FILES += sorted(GOLDEN.glob("train/*/*.raw")) + sorted(GOLDEN.glob("decode/*/*.raw"))
TEXT_FILES = sorted(GOLDEN.glob("*/*/model.txt"))


def _identify(path: Path) -> str:
    return "-".join(path.parts[-3:])


def _read(contents: bytes | str) -> Nnet:
    nnet = read_model(Reader(contents.encode() if isinstance(contents, str) else contents, "final.raw"))
    assert isinstance(nnet, Nnet)
    return nnet


def _bytes(nnet: Nnet, binary: bool = True) -> bytes:
    return to_bytes(nnet.write_to, binary)


# ---- Kaldi's own files ----


@pytest.mark.parametrize("path", RAW_FILES, ids=_identify)
def test_binary_files_are_rewritten_byte_for_byte(path: Path) -> None:
    nnet = load(path)
    assert _bytes(nnet) == path.read_bytes()
    if EFFORT == 1 and path.stat().st_size > _MOST_BYTES:
        return
    from_text = _read(_bytes(nnet, binary=False))
    assert _bytes(from_text) == path.read_bytes(), "the text form loses bits"


@pytest.mark.parametrize("path", TEXT_FILES, ids=_identify)
def test_text_files_agree_with_the_binary_ones(path: Path) -> None:
    expected = path.read_text()
    assert_same_text(_bytes(load(path), binary=False).decode(), expected)
    assert_same_text(_bytes(load(path.with_suffix(".raw")), binary=False).decode(), expected)


# ---- the worked example ----


def test_the_worked_example_in_both_forms() -> None:
    nnet = _read(RAW_TEXT)
    assert _bytes(nnet) == RAW_BINARY
    assert _bytes(_read(RAW_BINARY), binary=False).decode() == RAW_TEXT
    assert nnet.components["aff.c"].parameters()["linear_params"].tolist() == [[0.5, -0.25]]
    assert nnet.warnings == []


def test_lost_blanks_at_line_ends_and_carriage_returns_do_no_harm() -> None:
    stripped = "\n".join(line.rstrip() for line in RAW_TEXT.splitlines())
    assert _bytes(_read(stripped)) == RAW_BINARY
    assert _bytes(_read(RAW_TEXT.replace("\n", "\r\n"))) == RAW_BINARY
    assert _bytes(_read(RAW_TEXT + "\n \n")) == RAW_BINARY


def test_orphans_only_warn() -> None:
    line = "component-node name=aff component=aff.c input=input\n"
    nnet = _read(change(RAW_TEXT, line, line + line.replace("name=aff", "name=extra")))
    assert nnet.warnings == ["node 'extra' is never used to compute any output"]
    spare = "<ComponentName> spare <NoOpComponent> <Dim> 3 <BackpropScale> 1 </NoOpComponent>"
    unused = change(RAW_TEXT, "Components> 1 ", f"Components> 2 \n{spare}")
    assert _read(unused).warnings == ["component 'spare' is never used by any node"]


def test_a_network_without_components() -> None:
    nnet = Nnet.from_config("input-node name=input dim=3\noutput-node name=output input=Offset(input, 1)")
    again = _read(_bytes(nnet))
    assert again.config_lines() == nnet.config_lines()
    assert again.components == {}


def test_save_replaces_the_file_in_one_step(tmp_path: Path) -> None:
    nnet = _read(RAW_TEXT)
    path = tmp_path / "final.raw"
    path.write_text("old")
    nnet.save(path)
    assert path.read_bytes() == RAW_BINARY
    nnet.save(str(path), binary=False)
    assert path.read_text() == RAW_TEXT
    assert [entry.name for entry in tmp_path.iterdir()] == ["final.raw"]
    with pytest.raises(Nnet3Error, match="cannot write"):
        nnet.save(tmp_path / "no" / "folder")


def test_saved_and_loaded_network_is_a_network(tmp_path: Path) -> None:
    config = """
    input-node name=input dim=3
    component name=a type=NaturalGradientAffineComponent input-dim=9 output-dim=4
    component name=bn type=BatchNormComponent dim=4
    component-node name=a component=a input=Append(Offset(input, -1), input, Offset(input, 2))
    component-node name=bn component=bn input=a
    output-node name=output input=Scale(0.5, bn) objective=quadratic
    """
    nnet = Nnet.from_config(config, seed=3)
    for binary in (True, False):
        nnet.save(tmp_path / "n", binary=binary)
        again = load(tmp_path / "n")
        assert again.info() == nnet.info()
        assert torch.equal(again.components["a"].parameters()["linear_params"], nnet.components["a"].linear_params)


# ---- damage ----

BAD_TEXTS = [
    ("<Nnet3> \n", "<Nnet3> x\n", "line 1, column 9: expected the end of the line after <Nnet3>"),
    ("input=aff obj", "input=afff obj", "line 4, column 31: unknown node 'afff'"),
    ("input=aff obj", "input=afff obj", "^^^^ did you mean 'aff'?"),
    ("component=aff.c", "component=bff.c", "line 3, column 35: component-node 'aff': unknown component 'bff.c'"),
    ("input-node name=input dim=2", "component name=x type=NoOpComponent dim=2", "may hold nodes only, not components"),
    ("input-node name=input dim=2", "input-node name=input dim=3", "takes 2"),
    ("input-node name=input dim=2", "input-node name=ïnput dim=2", "line 2, column 17: 'ïnput' is not a valid name"),
    ("objective=quadratic", "objective=cubic", "line 4, column 45: output-node 'output': objective must be"),
    ("output-node", "# output-node", "final.raw: line 1, column 1: the network has no output-node"),
    ("<NumComponents> 1", "<NumComponents> -1", "line 6, column 17: the number of components must be in 0 .. 99999"),
    ("<NumComponents> 1", "<NumComponents> 100000", "the number of components must be in 0 .. 99999"),
    ("<NumComponents> 1", "<NumComponents> 2", "expected <ComponentName>, got '</Nnet3>'"),
    ("<NumComponents> 1", "<NumComponents> 0", "expected </Nnet3>, got '<ComponentName>'"),
    ("\n\n<NumComponents>", "\n<NumComponents>", "line 5, column 1: expected a node line, or an empty line after"),
    ("<ComponentName> aff.c", "<ComponentName>", "expected a component such as <TanhComponent>, got '<MaxChange>'"),
    ("<NaturalGradientAffine", "<NaturalGradientAffin", "component 'aff.c': expected a component"),
    ("<LinearParams>", "<LinearParam>", "line 7, column 94: component 'aff.c': expected <LinearParams>"),
    ("</Nnet3>", "</Nnet3> <More>", "the file should end here"),
    ("</Nnet3>", "</Nnet2>", "expected </Nnet3>, got '</Nnet2>'"),
    ("<Nnet3>", "<Nnet4>", "expected <Nnet3> (a raw network) or <TransitionModel> (an acoustic model), got '<Nnet4>'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), BAD_TEXTS)
def test_damaged_text_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ModelFormatError) as raised:
        _read(change(RAW_TEXT, old, new))
    assert message in str(raised.value)
    assert str(raised.value).startswith("final.raw: line ")


def test_a_file_that_ends_within_a_node_line() -> None:
    with pytest.raises(ModelFormatError, match="expected a line of text, but the file ends here"):
        _read(RAW_TEXT[: RAW_TEXT.index("output-node") + 5])


def test_two_components_of_one_name() -> None:
    component = RAW_TEXT[RAW_TEXT.index("<ComponentName>") : RAW_TEXT.index("</Nnet3>")]
    text = change(RAW_TEXT.replace(component, component * 2), "Components> 1", "Components> 2")
    with pytest.raises(ModelFormatError, match=r"line 11, column 17: there are two components with the name 'aff\.c'"):
        _read(text)


BAD_BINARIES = [
    (b"\0B", b"\0C", "begins with a zero byte"),
    (b"<NumComponents> \x04", b"<NumComponents> \x08", "begins with byte 4, got byte 8"),
    (b"FM \x04\x01\0\0\0", b"FM \x04\xff\xff\xff\x7f", "but only"),
    (b"FM \x04\x01\0\0\0", b"FM \x04\xff\xff\xff\xff", "cannot have size -1"),
    (b"FM \x04\x01\0\0\0", b"FM \x04\0\0\0\0", "cannot be 0 x 2"),
    (b"FV \x04\x01", b"FV \x04\x02", "component 'aff.c': "),
    (b"</Nnet3> ", b"</Nnet3> \0", "the file should end here"),
    (b"input=aff ", b"input=\xff\xff\xff ", "expected a line of text in UTF-8"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD_BINARIES)
def test_damaged_bytes_are_refused(old: bytes, new: bytes, message: str) -> None:
    assert old in RAW_BINARY
    with pytest.raises(ModelFormatError) as raised:
        _read(RAW_BINARY.replace(old, new, 1))
    assert message in str(raised.value)
    assert str(raised.value).startswith("final.raw: byte ")


def test_an_error_in_a_node_line_of_a_binary_file_names_its_byte() -> None:
    with pytest.raises(ModelFormatError) as raised:
        _read(RAW_BINARY.replace(b"input=aff ", b"input=bff "))
    offset = RAW_BINARY.index(b"input=aff ") + len("input=")
    assert str(raised.value).startswith(f"final.raw: byte {offset}: unknown node 'bff'\n  output-node name=output")


@pytest.mark.parametrize("contents", [RAW_TEXT.encode(), RAW_BINARY], ids=["text", "binary"])
def test_a_file_cut_anywhere_is_refused(contents: bytes) -> None:
    essential = len(contents) if contents == RAW_BINARY else len(contents.rstrip())
    assert_every_cut_is_found(contents, read_model, essential)


def test_a_node_line_without_end_is_not_taken_into_memory() -> None:
    contents = b"<Nnet3> \n" + b"x" * 50_000_000
    tracemalloc.start()
    with pytest.raises(ModelFormatError, match="expected a node line, got more than 2097152 bytes"):
        _read(contents)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_sizes_are_compared_with_the_file_before_memory_is_taken() -> None:
    huge = struct.pack("<bi", 4, 2**15 - 1)
    contents = RAW_BINARY.replace(b"FM \x04\x01\0\0\0\x04\x02\0\0\0", b"FM " + huge + huge)
    tracemalloc.start()
    with pytest.raises(ModelFormatError, match="a 32767 x 32767 matrix takes 4294705156 bytes, but only"):
        _read(contents)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_read_nnet_leaves_what_follows() -> None:
    reader = Reader(RAW_BINARY + b"<LeftContext> ")
    read_nnet(reader)
    assert reader.token() == "<LeftContext>"


def test_a_component_name_must_be_a_word() -> None:
    nnet = _read(RAW_TEXT)
    nnet.components["two words"] = nnet.components["aff.c"]
    with pytest.raises(ModelFormatError, match="cannot write 'two words' as a token"):
        nnet.write_to(Writer(binary=True))
