"""The stages in their order, from recordings to a report: run.sh of Kaldi's mini_librispeech, for strings of digits."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from nnet3.base.kaldi_io.symbols import load_symbols
from recipes.mini_digits import dictionary, discriminative, report, rnnlm, scoring, speech, telephone, training
from recipes.mini_digits.lines import Lines
from recipes.mini_digits.settings import MiniDigits
from recipes.spoken_digits.recordings import Recording, read_recordings
from recipes.spoken_digits.stages import Stage, key_of_file, run_stage

TRAINED = ("train", "valid")
PARTS = (*TRAINED, "test")
TESTED = PARTS[1:]
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
        further = self.trained_further(lang, data, again)
        models = {"flat start": flat_start, "TDNN-F": chain, AGAIN: again, self.settings.lattices.criterion: further}
        decoded = {name: self.decoded(grammar, model, data) for name, model in models.items()}
        numbers = self.stage(
            "numbers", lambda folder: self.make_numbers(recordings, lang.folder, folder), data=data,
            numbers=self.settings.numbers.numbers, plan=asdict(telephone.Plan()),
        )  # fmt: skip
        dialled = self.dialled(lang, numbers, further)
        folders = {stage.name: stage for stage in sorted(self.out.iterdir()) if (stage / "seconds").exists()}
        seconds = {name: float((folder / "seconds").read_text()) for name, folder in folders.items()}
        results = report.Results(
            self.settings, data.folder, lang.folder, {"flat start": aligned.folder, "TDNN-F": realigned.folder},
            tree.folder,
            {name: stage.folder for name, stage in models.items()},
            {name: stage.folder for name, stage in decoded.items()},
            numbers.folder,
            {name: stage.folder for name, stage in dialled.items()},
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

    def trained_further(self, lang: Stage, data: Stage, model: Stage) -> Stage:
        """The model after discriminative training on lattices of the strings it was trained on."""
        lattices = self.settings.lattices
        grammar = self.stage(
            "lang_degs",
            lambda folder: self.make_grammar(lang.folder, data.folder, folder, dictionary.write_unigram), data=data,
        )  # fmt: skip
        aligned = self.stage(
            "ali_degs", lambda folder: self.align(lang.folder, data.folder, model.folder, folder), model=model
        )
        names = {"lang": grammar.folder / "lang", "model": model.folder, "data": data.folder, "ali": aligned.folder}
        egs = self.stage(
            "degs",
            lambda folder: discriminative.make_examples(
                lattices, _context(self.settings), TRAINED, _names(here=folder, **names), folder, self.lines
            ),
            grammar=grammar, ali=aligned, how=[lattices.beam, lattices.lattice_beam, lattices.frames, lattices.overlap],
        )  # fmt: skip
        return self.stage(
            "degs_model",
            lambda folder: discriminative.train(
                lattices, self._archives(egs.folder, "degs"), lang.folder / "lang", model.folder, folder, self.lines
            ),
            egs=egs, **asdict(lattices),
        )  # fmt: skip

    def dialled(self, lang: Stage, numbers: Stage, model: Stage) -> dict[str, Stage]:
        """What is heard of telephone numbers with a bigram, and with an RNNLM on top of it."""
        grammar = self.stage(
            "lang_numbers", lambda folder: self.make_grammar(lang.folder, numbers.folder, folder), numbers=numbers
        )
        trained = self.stage(
            "rnnlm", lambda folder: self.train_rnnlm(lang.folder, numbers.folder, folder), texts=numbers,
            **asdict(self.settings.numbers), network=key_of_file(rnnlm.XCONFIG),
        )  # fmt: skip
        first = self.decoded(grammar, model, numbers, "decode_numbers")
        second = self.stage(
            "decode_numbers_rnnlm",
            lambda folder: self.rescore(grammar.folder, first.folder, trained.folder, numbers.folder, folder),
            first=first, rnnlm=trained,
        )  # fmt: skip
        return {"bigram": first, "bigram, then RNNLM": second}

    def decoded(self, grammar: Stage, model: Stage, data: Stage, name: str = "") -> Stage:
        """What a model hears of the strings to choose by and to test with."""
        return self.stage(
            name or f"decode_{model.folder.name}", partial(self.decode, grammar.folder, model.folder, data.folder),
            grammar=grammar, model=model, beams=self.settings.beams,
            choices=[self.settings.lm_weights, self.settings.word_penalties],
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

    def make_numbers(self, recordings: list[Recording], lang: Path, folder: Path) -> None:
        words, plan = load_symbols(lang / "lang" / "words.txt").labels, telephone.Plan()
        for number, (part, count) in enumerate(zip(PARTS, self.settings.numbers.numbers, strict=True)):
            target = folder / part
            target.mkdir(exist_ok=True)
            dialled = plan.numbers(count, number)
            if part == "train":  # text alone
                texts = [" ".join(dictionary.WORDS[int(digit)] for digit in each) for each in dialled]
                (target / "text").write_text("".join(f"{place:05d} {text}\n" for place, text in enumerate(texts)))
                continue
            own, seed = [each for each in recordings if each.part == part], self.settings.seed + len(PARTS) + number
            jobs, at_once = self.lines.jobs, not self.lines.in_process
            keys = speech.write_features(own, dialled, False, False, seed, target, jobs, at_once)
            speech.write_data(keys, target, words)

    def train_rnnlm(self, lang: Path, numbers: Path, folder: Path) -> None:
        texts = {part: scoring.read_texts(numbers / part / "text").values() for part in TRAINED}
        rnnlm.train(self.settings.numbers, texts, lang / "lang", folder, self.lines)

    def make_grammar(
        self,
        lang: Path,
        data: Path,
        folder: Path,
        write: Callable[[Sequence[list[str]], Path], None] = dictionary.write_arpa,
    ) -> None:
        write(list(scoring.read_texts(data / "train" / "text").values()), folder / "lm.arpa")
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
        beam, lattice_beam = self.settings.beams
        for part in TESTED:
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
        self.score(folder / "graph" / "words.txt", data, folder)

    def rescore(self, grammar: Path, first: Path, model: Path, data: Path, folder: Path) -> None:
        names = _names(here=folder, first=first, rnnlm=model)
        for part in TESTED:
            rnnlm.rescore(self.settings.numbers, grammar / "lang", names, part, folder, self.lines)
        self.score(first / "graph" / "words.txt", data, folder)

    def score(self, words: Path, data: Path, folder: Path) -> None:
        """What is heard by the lattices in the folder; what is best on the held-out strings counts on the test."""
        names = _names(here=folder, data=data)
        choices = [(weight, p) for weight in self.settings.lm_weights for p in self.settings.word_penalties]
        for part in TESTED:
            (folder / part).mkdir(exist_ok=True)
            lattices = [folder / f"{part}.{job + 1}.lat" for job in range(self.lines.jobs)]
            choices = [scoring.score(lattices, words, data / part / "text", choices, folder / part)]
            self.lines.run(
                folder,
                "compute-wer --text --mode=all ark:{data}/{part}/text ark:{here}/{part}/heard.txt > {part}/wer".format(
                    part=part, **names
                ),
            )

    def _archives(self, folder: Path, kind: str = "cegs") -> dict[str, list[Path]]:
        jobs = range(1, self.lines.jobs + 1)
        return {part: [folder / f"{part}.{job}.{kind}" for job in jobs] for part in TRAINED}


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
