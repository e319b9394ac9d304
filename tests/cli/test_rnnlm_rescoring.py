"""From training to rescoring: an RNNLM learns what n-grams cannot, and mends lattices by it.

Strings of eight digits repeat their first half. Lattices offer two digits at each place, and the wrong one is often the
cheaper one.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from nnet3.base.kaldi_io.lattice import open_lattice_table
from nnet3.speech.lattices.lattice_path import best_paths
from tests.cli.run_command import Cli

SPECIAL, DIGITS, HALF = 4, 10, 4  # <eps> <s> </s> <brk>, then digits
XCONFIG = """input dim=16 name=input
relu-renorm-layer name=tdnn1 dim=32 input=Append(0, IfDefined(-1), IfDefined(-2), IfDefined(-3), IfDefined(-8))
output-layer name=output include-log-softmax=false dim=16 param-stddev=0.1 bias-stddev=0.1
"""


def _strings(rng: np.random.Generator, count: int) -> np.ndarray:
    """Returns strings as numbers of words, (count, 8)."""
    half = rng.integers(SPECIAL, SPECIAL + DIGITS, (count, HALF))
    return np.concatenate([half, half], axis=1)


def _write_text(path: Path, strings: np.ndarray) -> None:
    path.write_text("".join(f"1 {' '.join(map(str, row))}\n" for row in strings.tolist()))


def _write_lattices(path: Path, strings: np.ndarray, rng: np.random.Generator) -> None:
    """Writes compact lattices in text, with the right digit and another one at each place, at random costs."""
    lines = []
    for number, row in enumerate(strings.tolist()):
        lines.append(f"utt{number}")
        for place, word in enumerate(row):
            other = SPECIAL + (word - SPECIAL + int(rng.integers(1, DIGITS))) % DIGITS
            costs = rng.normal([2.0, 3.0], 1.0)
            lines += [f"{place} {place + 1} {w} 0,{cost:.3f},1" for w, cost in zip((word, other), costs, strict=True)]
        lines += [str(len(row)), ""]
    path.write_text("\n".join(lines) + "\n")


def _errors(table: str, strings: np.ndarray) -> float:
    """Returns the share of wrong digits on the best paths of lattices."""
    with open_lattice_table(f"ark:{table}") as lattices:
        heard = [best_paths(lattice, 1, 1.0, 1.0)[0].words for _, lattice in lattices]
    return float(np.mean([np.mean(words != row) for words, row in zip(heard, strings, strict=True)]))


def test_an_rnnlm_mends_lattices_of_strings_that_repeat_themselves(cli: Cli) -> None:
    rng = np.random.default_rng(7)
    _write_text(Path("train.txt"), _strings(rng, 800))
    _write_text(Path("dev.txt"), _strings(rng, 50))
    tested = _strings(rng, 15)
    _write_lattices(Path("lats.txt"), tested, rng)
    Path("net.xconfig").write_text(XCONFIG)
    embedding = rng.normal(0, 0.3, (SPECIAL + DIGITS, 16))
    Path("embedding.mat").write_text(" [\n" + "\n".join(" ".join(map(str, row)) for row in embedding) + " ]\n")
    cli.good("init", "net.xconfig", "new.raw")
    cli.good("copy", "--learning-rate=0.003", "new.raw", "0.raw")
    sizes = "--chunk-length=18", "--num-chunks-per-minibatch=16", f"--vocab-size={SPECIAL + DIGITS}"
    cli.good("rnnlm-get-egs", *sizes, "train.txt", "ark:egs.ark")
    cli.good("rnnlm-get-egs", *sizes, "dev.txt", "ark:dev.ark")
    first = cli.good("rnnlm-compute-prob", "0.raw", "embedding.mat", "ark:dev.ark")
    cli.good(
        *("rnnlm-train", "--read-rnnlm=0.raw", "--write-rnnlm=1.raw", "--read-embedding=embedding.mat"),
        *("--write-embedding=words.mat", "--embedding.learning-rate=0.0005", "--rnnlm.max-param-change=1.0"),
        "ark:cat egs.ark egs.ark egs.ark |",
    )
    last = cli.good("rnnlm-compute-prob", "1.raw", "words.mat", "ark:dev.ark")
    assert float(first.out) < -2.0
    assert float(last.out) > -HALF * math.log(DIGITS) / 9 - 0.2  # four digits of nine words are free
    symbols = "--bos-symbol=1", "--eos-symbol=2", "--max-ngram-order=9"
    cli.good("lattice-lmrescore-kaldi-rnnlm", *symbols, "words.mat", "1.raw", "ark:lats.txt", "ark:rescored.lats")
    before, after = _errors("lats.txt", tested), _errors("rescored.lats", tested)
    assert before > 0.2
    assert after < 0.6 * before
