"""nnet3 align: times of words and phones for Praat and as ctm, and transcripts that cannot be aligned."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnet3.base.kaldi_io.symbols import load_symbols
from tests.cli.run_command import Cli
from tests.road_case import ROAD, needs_road

pytest.importorskip("kaldifst")

CASE = ROAD / "align_2"


@pytest.fixture
def texts(cli: Cli) -> list[str]:
    """The lines of `text`, in words of `lexicon.txt`."""
    names = load_symbols(CASE / "phones.txt").names
    Path("lexicon.txt").write_text("".join(f"w{name} {name}\n" for name in names.values() if name.startswith("p")))
    lines = []
    for line in (CASE / "text.txt").read_text().splitlines():
        key, *phones = line.split()
        lines.append(" ".join([key, *(f"w{names[int(phone)]}" for phone in phones)]))
    Path("text").write_text("\n".join(lines) + "\n")
    return lines


@needs_road
def test_all_outputs(cli: Cli, texts: list[str]) -> None:
    model, phones, features = CASE / "final.mdl", f"--phones={CASE / 'phones.txt'}", f"ark:{CASE / 'feats.ark'}"
    outputs = ["--textgrid=grids", "--ctm=words.ctm", "--phone-ctm=phones.ctm", "--alignments=ark:ali.ark"]
    said = cli.good("align", *outputs, f"--tree={CASE / 'tree'}", phones, model, "lexicon.txt", features, "ark:text")
    assert f"Done {len(texts)}, errors on 0" in said.err
    assert Path("ali.ark").read_bytes() == (CASE / "ali.ark").read_bytes()
    assert sorted(path.stem for path in Path("grids").iterdir()) == sorted(line.split()[0] for line in texts)
    for line in texts:
        key, *words = line.split()
        grid = (Path("grids") / f"{key}.TextGrid").read_text()
        assert [word for word in grid.split('"') if word in words] == words
    found = [line.split() for line in Path("words.ctm").read_text().splitlines()]
    assert [f"{key} {word}" for key, _, _, _, word in found] == [
        f"{line.split()[0]} {word}" for line in texts for word in line.split()[1:]
    ]
    theirs = [line.split() for line in (CASE / "phones_030.ctm").read_text().splitlines()]
    ours = [line.split() for line in Path("phones.ctm").read_text().splitlines()]
    assert [float(each[2]) for each in ours] == pytest.approx([float(each[2]) for each in theirs], abs=0.0051)
    assert cli.good("align", phones, model, "lexicon.txt", features, "ark:text").out == Path("words.ctm").read_text()


@needs_road
def test_what_is_left_out_and_what_is_an_error(cli: Cli, texts: list[str]) -> None:
    key, other, *_ = (line.split()[0] for line in texts)
    Path("mixed").write_text(f"{texts[0]}\n{other} nosuch word\nnofeats wp02\n{texts[2]} {'wp02 ' * 500}\nempty\n")
    model, phones, features = CASE / "final.mdl", f"--phones={CASE / 'phones.txt'}", f"ark:{CASE / 'feats.ark'}"
    outcome = cli.good("align", phones, model, "lexicon.txt", features, "ark:mixed")
    assert {line.split()[0] for line in outcome.out.splitlines()} == {key}
    assert f"utterance '{other}' left out: the lexicon lacks 'nosuch', 'word'" in outcome.err
    assert "utterance 'nofeats' left out: there are no features for it" in outcome.err
    assert "takes at least" in outcome.err
    assert "utterance 'empty' left out: there is nothing to align" in outcome.err
    assert "Done 1, errors on 4" in outcome.err
    unknown = cli.good("align", "--unknown=wp03", phones, model, "lexicon.txt", features, "ark:mixed")
    assert f"{other} 1 " in unknown.out
    Path("bad").write_text("x nosuchphone\n")
    for arguments, message in (
        ([phones, model, "bad", features, "ark:mixed"], "bad: the word 'x' has the phone 'nosuchphone'"),
        ([phones, model, "none", features, "ark:mixed"], "none"),
        (
            ["--phones=none.txt", model, "lexicon.txt", features, "ark:mixed"],
            "none.txt: no such file: say with --phones",
        ),
        ([phones, CASE / "tree", "lexicon.txt", features, "ark:mixed"], "tree"),
        ([phones, "--ctm=out", model, "lexicon.txt", "ark:none.ark", "ark:mixed"], "none.ark"),
        (
            ["--ctm=out", "--phone-ctm=./out", model, "lexicon.txt", features, "ark:mixed"],
            "--ctm and --phone-ctm are one file, out",
        ),
    ):
        outcome = cli("align", *arguments)
        assert outcome.status == 1
        assert message in outcome.err
    assert not Path("out").exists()
