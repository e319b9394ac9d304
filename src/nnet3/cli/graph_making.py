"""Makes lexicons, language models as FSTs, trees and decoding graphs, and the graphs of sequence training."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from nnet3.base.kaldi_io.files import is_special, write_atomically
from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_file import fst_file, fst_writer, load_fst, open_fst_table, save_fst
from nnet3.base.kaldi_io.graph_file import read_graph
from nnet3.base.kaldi_io.lattice import open_lattice_table
from nnet3.base.kaldi_io.load import open_rxfilename, write_wxfilenames
from nnet3.base.kaldi_io.replacing import FST, MODEL
from nnet3.base.kaldi_io.specifiers import parse_wxfilename
from nnet3.base.kaldi_io.symbols import SymbolTable, load_symbols
from nnet3.base.kaldi_io.table_values import open_int_vector_table, open_pair_table
from nnet3.base.kaldi_io.table_writer import TableWriter
from nnet3.base.kaldi_io.tables import TableReader
from nnet3.base.kaldi_io.whole_folder import whole_folder
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.alignment import DecodingGraphOptions, LangOptions, TrainingGraphOptions
from nnet3.base.options.chain import PhoneLmOptions, SupervisingOptions
from nnet3.cli.files import (
    check_can_save,
    load_transitions,
    load_tree,
    numbers_kind,
    open_file,
    read_integers,
    read_text,
    save,
    save_together,
)
from nnet3.cli.messages import LeftOut, naming, say
from nnet3.errors import ArgumentError, ModelFormatError, Nnet3Error, TrainingError
from nnet3.model.hmm.topology import read_topology
from nnet3.model.hmm.tree import count_pairs, left_biphone_tree, make_transition_model, monophone_tree
from nnet3.speech.language_models.arpa import arpa_fst, parse_arpa, with_ends
from nnet3.speech.language_models.const_arpa_file import write_const_arpa
from nnet3.speech.language_models.const_arpa_making import make_const_arpa
from nnet3.speech.language_models.graph_words import DIGEST, check_words, digest_of_grammar, digest_text, write_digest
from nnet3.speech.language_models.integer_arpa import read_integer_arpa
from nnet3.speech.language_models.lang_folder import LISTS_OF_PHONES, Dictionary, write_lang
from nnet3.speech.search.grammar_graph import FIRST_NONTERMINAL, Grammar, write_grammar
from nnet3.speech.search.grammar_making import prepared
from nnet3.training.chain.denominator_graph import DenominatorGraph
from nnet3.training.chain.graphs.denominator_fst import make_denominator_fst
from nnet3.training.chain.graphs.fst_changes import sorted_by_label, with_labels
from nnet3.training.chain.graphs.normalization import make_normalization_fst
from nnet3.training.chain.graphs.numerator_fst import numerator_fst
from nnet3.training.chain.graphs.openfst import OpenFst
from nnet3.training.chain.graphs.phone_hmms import PhoneHmms, TransitionTables
from nnet3.training.chain.graphs.phone_lm import estimate_phone_lm
from nnet3.training.chain.graphs.supervising import supervise
from nnet3.training.chain.graphs.timed_phones import phones_of_durations, phones_of_lattice
from nnet3.training.chain.graphs.training_graph import make_decoding_graph
from nnet3.training.chain.supervision_file import write_supervision

#: What a folder of a graph has.
_OF_GRAPH = ("HCLG.fst", "words.txt", "phones.txt", DIGEST, "num_pdfs", *LISTS_OF_PHONES)


def prepare_lang(dictionary: str, oov: str, folder: str, options: LangOptions) -> None:
    """Makes a folder `lang` of a dictionary."""
    found = Dictionary.load(dictionary)
    write_lang(found, oov, folder, options)
    say(f"{folder}: {len({each.word for each in found.lexicon})} words, {len(found.lexicon)} pronunciations")


def arpa_to_fst(
    model: str,
    output: str,
    back_off: str,
    read_table: str,
    write_table: str,
    keep_symbols: bool,
    begin: str,
    end: str,
) -> None:
    """Makes an FST of a language model. `back_off` is the symbol of back-offs, "" for none.

    It has the symbols in it with `keep_symbols`, and where no table has them.
    """
    check_can_save(FST, output)
    check_can_save("", write_table)
    arpa = parse_arpa(read_text(model), model, begin, end)
    if (begin,) not in arpa.log10:
        raise Nnet3Error(f"{model}: there is no word '{begin}', which begins sentences")
    if read_table:
        labels = dict(load_symbols(read_table).labels)
        if back_off and back_off not in labels:
            raise Nnet3Error(f"{read_table}: there is no symbol '{back_off}'")
    else:
        words = (word for word in arpa.words if word not in (begin, end, back_off))
        names = ["<eps>", *([back_off] if back_off else []), begin, end, *words]
        labels = {name: number for number, name in enumerate(names)}
    for name in (begin, end):
        labels.setdefault(name, max(labels.values(), default=0) + 1)
    missing = sum(word not in labels for word in arpa.words)
    if missing:
        say(f"warning: {missing} of {len(arpa.words)} words are not in {read_table}: n-grams with them are left out")
    fst = arpa_fst(arpa, labels, labels[back_off] if back_off else 0)
    if not back_off:
        fst = with_ends(fst, labels[begin], labels[end])
    fst, is_alone = sorted_by_label(fst), not (read_table or write_table)
    symbols = SymbolTable({label: name for name, label in labels.items()}) if keep_symbols or is_alone else None
    listed = "".join(f"{name}\t{label}\n" for name, label in sorted(labels.items(), key=itemgetter(1)))
    outputs = [(output, fst_file(fst, symbols)), *([(write_table, Writer(False).text(listed))] if write_table else [])]
    if _makes_file(output) and (os.path.isfile(read_table) if read_table else _makes_file(write_table)):
        contents = Path(read_table).read_bytes() if read_table else listed.encode()
        digest = digest_text(contents, Path(read_table or write_table).name)
        outputs.append((str(digest_of_grammar(Path(output))), Writer(False).text(digest)))
    write_wxfilenames(outputs)
    say(f"a grammar of {fst.num_states} states and {fst.num_arcs} arcs")


def _makes_file(name: str) -> bool:
    return parse_wxfilename(name).kind == "file" and not is_special(name)


def arpa_to_const_arpa(model: str, output: str, bos: int, eos: int, unk: int) -> None:
    """Makes a const-arpa model of an ARPA file whose words are integers."""
    check_can_save(MODEL, output)
    try:
        made = make_const_arpa(read_integer_arpa(open_file(model)), bos, eos, unk)
    except (ModelFormatError, ArgumentError) as error:
        raise Nnet3Error(str(error) if getattr(error, "source", "") else f"{model}: {error}") from None
    save(output, True, partial(write_const_arpa, made))
    say(f"a model of {len(made.states)} numbers, with n-grams of up to {made.order} words")


def project(fst: str, output: str, side: str) -> None:
    """Copies the labels of one side of an FST to the other."""
    read = load_fst(fst)
    save_fst(with_labels(read, read.olabel if side == "output" else read.ilabel), output)


def copy_fsts(source: str, output: str) -> int:
    """Copies a table of FSTs. Returns 1, an exit status, if it is empty."""
    with open_fst_table(source) as table, fst_writer(output) as writer:
        for key, fst in table:
            writer.write(key, fst)
        say(f"Copied {writer.count} FSTs.")
        return int(writer.count == 0)


def prepare_for_grammars(source: str, output: str, first_symbol: int) -> None:
    """Writes a graph with nonterminals as grammars need it."""
    with _in_file(source):
        save_fst(prepared(read_graph(open_rxfilename(source)).fst, first_symbol), output)


def make_grammar(top: str, nonterminals: Sequence[str], sources: Sequence[str], output: str, first_symbol: int) -> None:
    """Writes a grammar of a top graph and the graphs of nonterminals, by their numbers."""
    parts: dict[int, Fst] = {}
    for number, source in zip(nonterminals, sources, strict=True):
        if not number.isdecimal() or int(number) < first_symbol + FIRST_NONTERMINAL or int(number) in parts:
            raise Nnet3Error(
                f"'{number}': expected the number of a nonterminal of one's own, which is at least "
                f"{first_symbol + FIRST_NONTERMINAL}, and each once"
            )
        parts[int(number)] = read_graph(open_rxfilename(source)).fst
    grammar = Grammar(first_symbol, read_graph(open_rxfilename(top)).fst, parts)
    save(output, True, lambda writer: write_grammar(writer, grammar))


@contextmanager
def _in_file(name: str) -> Iterator[None]:
    """Errors of a graph name its file."""
    try:
        yield
    except ModelFormatError as error:
        raise error if error.source else ModelFormatError(error.message, name) from None


def init_tree(topology: str, tree: str, model: str, sequences: str, min_count: int, binary: bool) -> None:
    """Writes a tree grown without data, and its transition model; of pairs of phones if there are sequences."""
    check_can_save(numbers_kind(binary), tree)
    check_can_save(MODEL, model)
    topo = read_topology(open_file(topology))
    if sequences:
        with open_int_vector_table(sequences) as table, naming(sequences):
            counts = count_pairs((phones for _, phones in table), topo)
        if not counts.any():
            raise Nnet3Error(f"{sequences}: expected sequences of phones, found no phone")
        found = left_biphone_tree(topo, counts, min_count)
    else:
        found = monophone_tree(topo)
    with naming(topology):
        transitions = make_transition_model(found, topo)
    made = ((tree, found.write_to), (model, transitions.write_to))
    save_together(binary, *((name, write) for name, write in made if name))
    say(f"a tree of {found.num_pdfs} pdfs")


def make_graph(lang: str, model: str, folder: str, options: DecodingGraphOptions) -> None:
    """Makes a folder `graph` of a folder `lang` and a model's folder: HCLG.fst, its words, recognizers' files."""
    source = Path(lang)
    tree = load_tree(str(Path(model) / "tree"))
    transitions = load_transitions(str(Path(model) / "final.mdl"))
    words = load_symbols(source / "words.txt")
    disambiguation = read_integers(str(source / "phones" / "disambig.int"))
    lexicon, grammar = (load_fst(str(source / name)) for name in ("L_disambig.fst", "G.fst"))
    _check_labels(lexicon.olabel.max(initial=0), words.names, source / "L_disambig.fst")
    _check_labels(grammar.largest_label, words.names, source / "G.fst")
    check_words(source / "G.fst", source / "words.txt", digest_of_grammar(source / "G.fst"))
    scales = TrainingGraphOptions(options.transition_scale, options.self_loop_scale)
    with whole_folder(folder, _OF_GRAPH, keeps_others=True) as target:
        graph = make_decoding_graph(PhoneHmms(tree, transitions), lexicon, grammar, disambiguation, scales)
        (target / "phones").mkdir()
        of_phones = (f"phones/{path.name}" for path in sorted((source / "phones").iterdir()))
        for name in ("words.txt", "phones.txt", *of_phones):
            if (source / name).is_file():
                write_atomically(target / name, (source / name).read_bytes())
        write_digest(target / DIGEST, target / "words.txt")
        write_atomically(target / "num_pdfs", f"{transitions.num_pdfs}\n".encode())
        save_fst(graph, str(target / "HCLG.fst"))
    say(f"a graph of {graph.num_states} states and {graph.num_arcs} arcs")


def _check_labels(largest: int, names: Mapping[int, str], path: Path) -> None:
    if largest > max(names, default=0):
        raise Nnet3Error(f"{path}: it has the label {largest}, but words.txt ends at {max(names, default=0)}")


def tree_lines(name: str) -> list[str]:
    """Returns what Kaldi's program prints of a tree."""
    tree = load_tree(name)
    central = f"central-position {tree.central_position}"
    return [f"num-pdfs {tree.num_pdfs}", f"context-width {tree.context_width}", central]


def estimate(sequences: str, output: str, options: PhoneLmOptions) -> None:
    """Writes a phone language model, estimated from a table of sequences of phones."""
    check_can_save(FST, output)
    with open_int_vector_table(sequences) as table:
        fst = estimate_phone_lm((phones for _, phones in table), options)
    save_fst(fst, output)
    say(f"a phone language model of {fst.num_states} states and {fst.num_arcs} arcs")


def make_denominator(tree: str, model: str, phone_lm: str, denominator: str, normalization: str) -> None:
    """Writes a denominator graph, and its normalization graph."""
    check_can_save(FST, denominator, normalization)
    transitions = load_transitions(model)
    fst = make_denominator_fst(load_tree(tree), transitions, load_fst(phone_lm))
    graph = DenominatorGraph.from_fst(fst, transitions.num_pdfs)
    weights = make_normalization_fst(fst, graph.initial)
    write_wxfilenames([(denominator, fst_file(fst)), (normalization, fst_file(weights))])
    missing = transitions.num_pdfs - len(set(fst.ilabel.tolist()))
    if missing:
        say(f"warning: {missing} of {transitions.num_pdfs} pdfs do not occur in the denominator graph")
    say(f"a denominator graph of {fst.num_states} states and {fst.num_arcs} arcs")


def make_supervision(
    tree: str, model: str, phones: str, output: str, lattice_input: bool, options: SupervisingOptions
) -> int:
    """Writes the supervision of all utterances; returns the exit status."""
    hmms, left_out = PhoneHmms(load_tree(tree), load_transitions(model)), LeftOut("{} is left out: {}")
    table: TableReader[Any] = open_lattice_table(phones) if lattice_input else open_pair_table(phones)
    timed = partial(phones_of_lattice, lm_scale=options.lm_scale) if lattice_input else phones_of_durations
    with table, TableWriter(output, write_supervision) as writer:
        for key, found in left_out.each(table, lambda _, entry: supervise(timed(entry), hmms, options)):
            writer.write(key, found)
    say(f"supervision of {writer.count} utterances; {left_out.failed} could not be used")
    return 0 if writer.count > left_out.failed else 1


def make_numerators(model: str, normalization: str, graphs: str, output: str) -> None:
    """Writes the numerator graph of each training graph; an empty graph, with a warning, where no path is left."""
    transitions = TransitionTables(load_transitions(model))
    weights = OpenFst.of(load_fst(normalization))
    with open_fst_table(graphs) as table, fst_writer(output) as writer:
        for key, graph in table:
            try:
                writer.write(key, numerator_fst(graph, transitions, weights))
            except TrainingError as error:
                say(f"warning: the graph of '{key}' becomes empty: {error}")
                writer.write(key, Fst.empty())
        say(f"{writer.count} graphs written")
