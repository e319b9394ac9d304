"""An RNN language model of telephone numbers, from text to rescored lattices (Kaldi: `train_rnnlm.sh`,
`lmrescore_pruned.sh`)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from nnet3.base.kaldi_io.symbols import load_symbols
from nnet3.kaldi_io import Writer
from recipes.mini_digits.lines import Lines
from recipes.mini_digits.settings import LanguageModel

XCONFIG = Path(__file__).with_name("rnnlm.xconfig")
PARTS = ("train", "valid")


def train(
    settings: LanguageModel, texts: Mapping[str, Iterable[list[str]]], lang: Path, folder: Path, lines: Lines
) -> None:
    """`final.raw` and `words.mat`, the embedding, in the folder; `valid.log` has the objective on held-out strings.

    The vocabulary is small, so no words are sampled: each minibatch has all of them.
    """
    labels = load_symbols(lang / "words.txt").labels
    (folder / "rnnlm.xconfig").write_text(XCONFIG.read_text().format(dim=settings.dim, width=settings.width))
    embedding = np.random.default_rng(settings.seed).normal(0, 0.3, (len(labels) + 1, settings.dim))
    writer = Writer.of_file(binary=True)
    writer.matrix(embedding)
    writer.write_to(folder / "words.0.mat")
    for part in PARTS:
        rows = [" ".join(["1", *(str(labels[word]) for word in words)]) for words in texts[part]]
        (folder / f"{part}.txt").write_text("".join(f"{row}\n" for row in rows))
    here = shlex.quote(str(folder))
    symbols = f"{_symbols(lang)} --brk-symbol={len(labels)} --vocab-size={len(labels) + 1}"
    lines.run(
        folder,
        f"init --srand={settings.seed} {here}/rnnlm.xconfig {here}/new.raw",
        f"copy --learning-rate={settings.rate} {here}/new.raw {here}/0.raw",
        *(
            f"rnnlm-get-egs {symbols} --chunk-length=16 --num-chunks-per-minibatch=32 {here}/{part}.txt "
            f"ark:{here}/{part}.egs"
            for part in PARTS
        ),
    )
    for epoch in range(settings.epochs):
        last = epoch + 1 == settings.epochs
        lines.run(
            folder,
            f"rnnlm-train --read-rnnlm={here}/{epoch}.raw --read-embedding={here}/words.{epoch}.mat "
            f"--write-rnnlm={here}/{'final' if last else epoch + 1}.raw "
            f"--write-embedding={here}/words{'' if last else f'.{epoch + 1}'}.mat "
            f"--embedding.learning-rate={settings.embedding_rate} --rnnlm.max-param-change=1.0 ark:{here}/train.egs",
        )
    lines.run(folder, f"rnnlm-compute-prob {here}/final.raw {here}/words.mat ark:{here}/valid.egs > valid.log")


def rescore(
    settings: LanguageModel, lang: Path, names: Mapping[str, str], part: str, folder: Path, lines: Lines
) -> None:
    """`PART.JOB.lat` in `here` with a share of the costs of `lang`'s grammar exchanged for those of the model `rnnlm`.

    `names` has the places that lines name: `here`, `rnnlm`, and `first`, where the lattices of the first pass are.
    """
    lines.run(
        folder,
        f"lattice-lmrescore-kaldi-rnnlm-pruned {_symbols(lang)} --lm-scale={settings.share} --acoustic-scale=0.1 "
        f"--max-ngram-order={settings.order} {shlex.quote(str(lang))}/G.fst {{rnnlm}}/words.mat {{rnnlm}}/final.raw "
        f"ark:{{first}}/{part}.JOB.lat ark:{{here}}/{part}.JOB.lat".format(**names),
    )


def _symbols(lang: Path) -> str:
    labels = load_symbols(lang / "words.txt").labels
    return f"--bos-symbol={labels['<s>']} --eos-symbol={labels['</s>']}"
