"""docs/alignment.md: its Python and its lines run, in a folder with a model of Kaldi's."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.doctest_page import DOCS
from tests.road_case import ROAD, needs_road, run_good

pytest.importorskip("kaldifst")

CASE = ROAD / "align_2"
_WORDS = {"p02": "two", "p04": "four", "p05": "five", "p06": "six", "p08": "eight", "p09": "nine"}


@needs_road
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("final.mdl", "phones.txt", "tree", "feats.ark", "L.fst"):
        shutil.copyfile(CASE / name, name)
    names = [line.split()[0] for line in Path("phones.txt").read_text().splitlines() if line.startswith("p")]
    lines = [f"{_WORDS.get(name, name)} {name}\n" for name in names] + ["<unk> p02\n"]
    Path("lexicon.txt").write_text("".join(lines))
    text = (DOCS / "alignment.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    exec(compile(code, "alignment.md", "exec"), {})
    assert capsys.readouterr().out == shown
    Path("text").write_text("utt000 four six five six nine eight two four\n")
    Path("text.int").write_text("utt000 4 6 5\n")
    run_good("copy-feats ark:feats.ark ark,scp:copied.ark,feats.scp")
    runs = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for line in "".join(runs).replace("\\\n", "").splitlines():
        run_good(line)
    assert Path("grids/utt000.TextGrid").exists()
    assert Path("phones.ctm").exists()
