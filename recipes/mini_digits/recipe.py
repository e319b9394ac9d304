"""The stages in their order, from recordings to a report: run.sh of Kaldi's mini_librispeech, for strings of digits."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from nnet3.base.kaldi_io.symbols import load_symbols
from recipes.mini_digits import dictionary, report, scoring, speech, training
from recipes.mini_digits.lines import Lines
from recipes.mini_digits.settings import MiniDigits
from recipes.spoken_digits.recordings import Recording, read_recordings
from recipes.spoken_digits.stages import Stage, key_of_file, run_stage

TRAINED = ("train", "valid")
PARTS = (*TRAINED, "test")
AGAIN = "TDNN-F on its own alignment"
_SCALES = "--transition-scale=1.0 --acoustic-scale=1.0 --self-loop-scale=1.0"


class MiniDigitsRun:
    """One run: folders of stages in `out`, and what has been done of them."""

    def __init__(self, archive: Path, out: Path, settings: MiniDigits, lines: Lines):
        self.archive, self.out, self.settings, self.lines = archive, out, settings, lines

    def stage(self, name: str, make: Callable[[Path], None], **depends_on: object) -> Stage:
        """A stage that leaves its seconds behind; stages that it depends on are given as such."""
        keys = {key: value.key if isinstance(value, Stage) else value for key, value in depends_on.items()}

        def timed(folder: Path) -> None:
            begin = time.perf_counter()
            make(folder)
            (folder / "seconds").write_text(f"{time.perf_counter() - begin:.1f}\n")

        return run_stage(self.out, name, {"jobs": self.lines.jobs, **keys}, timed)

    def run(self) -> Path:
        """All stages that are not done yet; returns the path of the report."""
        recordings = read_recordings(self.archive)
        lang = self.stage("lang", self.make_lang, lexicon=dictionary.LEXICON)
        data = self.stage(
            "data", lambda folder: self.make_data(recordings, lang.folder, folder), lang=lang,
            recordings=key_of_file(self.archive), strings=self.settings.strings, seed=self.settings.seed,
        )  # fmt: skip
        grammar = self.stage("lang_test", lambda folder: self.make_grammar(lang.folder, data.folder, folder), data=data)
        flat = self.stage("flat_graphs", lambda folder: self.make_flat(lang.folder, data.folder, folder), data=data)
        sizes = {"sizes": [self.settings.width, self.settings.bottleneck], "network": key_of_file(training.XCONFIG)}
        flat_start = self.stage(
            "flat_start", lambda folder: self.train_flat(flat.folder, folder), graphs=flat, **sizes,
            **asdict(self.settings.flat),
        )  # fmt: skip
        aligned = self.stage(
            "ali", lambda folder: self.align(lang.folder, data.folder, flat_start.folder, folder), model=flat_start
        )
        tree = self.stage(
            "tree", lambda folder: self.make_tree(lang.folder, flat_start.folder, aligned.folder, folder),
            ali=aligned, min_count=self.settings.min_count,
        )  # fmt: skip
        chain = self.trained("", data, tree, aligned, **sizes)
        realigned = self.stage(
            "ali_again", lambda folder: self.align(lang.folder, data.folder, chain.folder, folder), model=chain
        )
        again = self.trained("_again", data, tree, realigned, **sizes)
        decoded = {
            name: self.stage(
                f"decode_{name}",
                partial(self.decode, grammar.folder, model.folder, data.folder),
                grammar=grammar, model=model, beams=self.settings.beams,
                choices=[self.settings.lm_weights, self.settings.word_penalties],
            )
            for name, model in (("flat_start", flat_start), ("chain", chain), ("chain_again", again))
        }  # fmt: skip
        folders = {stage.name: stage for stage in sorted(self.out.iterdir()) if (stage / "seconds").exists()}
        seconds = {name: float((folder / "seconds").read_text()) for name, folder in folders.items()}
        results = report.Results(
            self.settings, data.folder, lang.folder, {"flat start": aligned.folder, "TDNN-F": realigned.folder},
            tree.folder,
            {"flat start": flat_start.folder, "TDNN-F": chain.folder, AGAIN: again.folder},
            dict(zip(("flat start", "TDNN-F", AGAIN), (stage.folder for stage in decoded.values()), strict=True)),
            seconds,
        )  # fmt: skip
        return report.write_report(results, self.out)

    def trained(self, suffix: str, data: Stage, tree: Stage, aligned: Stage, **sizes: object) -> Stage:
        """The TDNN-F that an alignment gives, by examples that it gives with the tree."""
        egs = self.stage(
            f"egs{suffix}", lambda folder: self.make_examples(data.folder, tree.folder, aligned.folder, folder),
            tree=tree, ali=aligned, **sizes,
        )  # fmt: skip
        return self.stage(
            f"chain{suffix}", lambda folder: self.train_chain(tree.folder, egs.folder, folder), egs=egs,
            **asdict(self.settings.chain),
        )  # fmt: skip

    # ---- what the stages do ----

    def make_lang(self, folder: Path) -> None:
        (folder / "dict").mkdir(exist_ok=True)
        dictionary.write_dictionary(folder / "dict")
        here = shlex.quote(str(folder))
        self.lines.run(
            folder,
            f"prepare-lang --position-dependent-phones=false {here}/dict '{dictionary.UNKNOWN}' {here}/lang",
        )

    def make_data(self, recordings: list[Recording], lang: Path, folder: Path) -> None:
        words = load_symbols(lang / "lang" / "words.txt").labels
        for number, (part, count) in enumerate(zip(PARTS, self.settings.strings, strict=True)):
            target = folder / part
            target.mkdir(exist_ok=True)
            own = [each for each in recordings if each.part == part]
            fit, seed = part != "test", self.settings.seed + number
            jobs, at_once = self.lines.jobs, not self.lines.in_process
            keys = speech.write_features(own, count, part == "train", fit, seed, target, jobs, at_once)
            speech.write_data(keys, target, words)

    def make_grammar(self, lang: Path, data: Path, folder: Path) -> None:
        dictionary.write_arpa(list(scoring.read_texts(data / "train" / "text").values()), folder / "lm.arpa")
        here = _copied(lang / "lang", folder / "lang")
        self.lines.run(
            folder,
            f"arpa2fst --disambig-symbol=#0 --read-symbol-table={here}/words.txt "
            f"{shlex.quote(str(folder))}/lm.arpa {here}/G.fst",
        )

    def make_flat(self, lang: Path, data: Path, folder: Path) -> None:
        # the held-out strings too: a language model without back-offs does not have what it has never seen
        texts = {key: words for part in TRAINED for key, words in scoring.read_texts(data / part / "text").items()}
        labels = load_symbols(lang / "lang" / "phones.txt").labels
        phones = dictionary.phones_of_texts(texts, labels, self.settings.seed)
        _write_integers(phones, folder / "phones.int")
        names = _names(here=folder, lang=lang / "lang", data=data)
        lengths = ",".join(map(str, speech.lengths()))
        context = _context(self.settings)
        self.lines.run(
            folder,
            "init-tree {lang}/topo {here}/tree {here}/0.trans_mdl".format(**names),
            "chain-est-phone-lm --num-extra-lm-states=100 ark:{here}/phones.int {here}/phone_lm.fst".format(**names),
            "chain-make-den-fst {here}/tree {here}/0.trans_mdl {here}/phone_lm.fst {here}/den.fst "
            "{here}/normalization.fst".format(**names),
        )
        for part in TRAINED:
            self.lines.run(
                folder,
                "compile-train-graphs --transition-scale=1.0 --self-loop-scale=1.0 {here}/tree {here}/0.trans_mdl "
                "{lang}/L.fst ark:{data}/{part}/text.JOB.int ark:{here}/graphs.{part}.JOB.ark".format(
                    part=part, **names
                ),
                "chain-e2e-get-egs --srand=JOB --frame-subsampling-factor={factor} {context} --num-frames={lengths} "
                "{here}/normalization.fst scp:{data}/{part}/feats.JOB.scp ark:{here}/graphs.{part}.JOB.ark "
                "{here}/0.trans_mdl ark:{here}/{part}.JOB.cegs"
                "".format(part=part, factor=speech.FACTOR, context=context, lengths=lengths, **names),
            )

    def train_flat(self, graphs: Path, folder: Path) -> None:
        archives = self._archives(graphs)
        training.train(self.settings, self.settings.flat, graphs, archives, False, folder, self.lines)

    def align(self, lang: Path, data: Path, model: Path, folder: Path) -> None:
        names = _names(here=folder, lang=lang / "lang", data=data, model=model)
        for part in TRAINED:
            self.lines.run(
                folder,
                "compile-train-graphs {model}/tree {model}/final.mdl {lang}/L.fst ark:{data}/{part}/text.JOB.int "
                "ark:{here}/graphs.{part}.JOB.ark".format(part=part, **names),
                "align-compiled {scales} --frame-subsampling-factor={factor} --beam=20 --retry-beam=200 "
                "{model}/final.mdl ark:{here}/graphs.{part}.JOB.ark scp:{data}/{part}/feats.JOB.scp "
                "ark:{here}/ali.{part}.JOB.ark".format(part=part, scales=_SCALES, factor=speech.FACTOR, **names),
                "ali-to-phones --write-lengths=true {model}/final.mdl ark:{here}/ali.{part}.JOB.ark "
                "ark:{here}/lengths.{part}.JOB.ark".format(part=part, **names),
            )

    def make_tree(self, lang: Path, model: Path, aligned: Path, folder: Path) -> None:
        names = _names(here=folder, lang=lang / "lang", model=model, ali=aligned)
        for part in TRAINED:
            self.lines.run(
                folder,
                "ali-to-phones {model}/final.mdl ark:{ali}/ali.{part}.JOB.ark ark,t:{here}/phones.{part}.JOB.int"
                "".format(part=part, **names),
            )
        parts = [
            (folder / f"phones.{part}.{job + 1}.int").read_text() for part in TRAINED for job in range(self.lines.jobs)
        ]
        (folder / "phones.int").write_text("".join(parts))
        self.lines.run(
            folder,
            "init-tree --phones=ark:{here}/phones.int --min-count={count} {lang}/topo {here}/tree {here}/0.trans_mdl"
            "".format(count=self.settings.min_count, **names),
            "chain-est-phone-lm --num-extra-lm-states=200 ark:{here}/phones.int {here}/phone_lm.fst".format(**names),
            "chain-make-den-fst {here}/tree {here}/0.trans_mdl {here}/phone_lm.fst {here}/den.fst "
            "{here}/normalization.fst".format(**names),
        )

    def make_examples(self, data: Path, tree: Path, aligned: Path, folder: Path) -> None:
        names = _names(here=folder, data=data, tree=tree, ali=aligned)
        for part in TRAINED:
            self.lines.run(
                folder,
                "chain-get-supervision --left-tolerance=2 --right-tolerance=2 {tree}/tree {tree}/0.trans_mdl "
                "ark:{ali}/lengths.{part}.JOB.ark ark:{here}/sup.{part}.JOB.ark".format(part=part, **names),
                "chain-get-egs --srand=JOB --frame-subsampling-factor={factor} {context} --num-frames=90,60,45 "
                "{tree}/normalization.fst scp:{data}/{part}/feats.JOB.scp ark:{here}/sup.{part}.JOB.ark "
                "ark:{here}/{part}.JOB.cegs"
                "".format(part=part, factor=speech.FACTOR, context=_context(self.settings), **names),
            )

    def train_chain(self, tree: Path, examples: Path, folder: Path) -> None:
        archives = self._archives(examples)
        training.train(self.settings, self.settings.chain, tree, archives, True, folder, self.lines)

    def decode(self, grammar: Path, model: Path, data: Path, folder: Path) -> None:
        names = _names(here=folder, lang=grammar / "lang", model=model, data=data)
        self.lines.run(folder, "mkgraph --self-loop-scale=1.0 {lang} {model} {here}/graph".format(**names))
        choices = [(weight, p) for weight in self.settings.lm_weights for p in self.settings.word_penalties]
        beam, lattice_beam = self.settings.beams
        for part in ("valid", "test"):
            self.lines.run(
                folder,
                "latgen-faster --acoustic-scale=1.0 --frame-subsampling-factor={factor} --beam={beam:g} "
                "--lattice-beam={lattice_beam:g} --allow-partial=true {model}/final.mdl {here}/graph/HCLG.fst "
                "scp:{data}/{part}/feats.JOB.scp ark:{here}/raw.{part}.JOB.lat".format(
                    part=part, factor=speech.FACTOR, beam=beam, lattice_beam=lattice_beam, **names
                ),
                "lattice-scale --acoustic-scale=10.0 ark:{here}/raw.{part}.JOB.lat ark:{here}/{part}.JOB.lat".format(
                    part=part, **names
                ),
            )
            (folder / part).mkdir(exist_ok=True)
            lattices = [folder / f"{part}.{job + 1}.lat" for job in range(self.lines.jobs)]
            words = folder / "graph" / "words.txt"
            best = scoring.score(lattices, words, data / part / "text", choices, folder / part)
            choices = [best]  # what is best on the held-out strings is what counts on the test
            self.lines.run(
                folder,
                "compute-wer --text --mode=all ark:{data}/{part}/text ark:{here}/{part}/heard.txt > {part}/wer".format(
                    part=part, **names
                ),
            )

    def _archives(self, folder: Path) -> dict[str, list[Path]]:
        jobs = range(1, self.lines.jobs + 1)
        return {part: [folder / f"{part}.{job}.cegs" for job in jobs] for part in TRAINED}


def _names(**paths: Path) -> dict[str, str]:
    """Paths as lines can hold them."""
    return {name: shlex.quote(str(path)) for name, path in paths.items()}


def _context(settings: MiniDigits) -> str:
    """The context that examples need: what the network sees, and a frame more, to be shifted by."""
    context = training.context(settings) + speech.FACTOR // 2
    return f"--left-context={context} --right-context={context}"


def _copied(source: Path, target: Path) -> str:
    target.mkdir(exist_ok=True)
    for path in sorted(source.rglob("*")):
        if path.is_file():
            (target / path.relative_to(source)).parent.mkdir(exist_ok=True)
            (target / path.relative_to(source)).write_bytes(path.read_bytes())
    return shlex.quote(str(target))


def _write_integers(sequences: dict[str, list[int]], path: Path) -> None:
    path.write_text("".join(f"{key} {' '.join(map(str, numbers))}\n" for key, numbers in sequences.items()))
