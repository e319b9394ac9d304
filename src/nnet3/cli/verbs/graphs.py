"""Verbs of lexicons, graphs and words."""

from __future__ import annotations

from typing import Any

import click

from nnet3.base.options.alignment import DecodingGraphOptions, LangOptions
from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import arguments, binary_option, flag, ignored, integer, text_option, whole_number
from nnet3.cli.verb import verb


@verb()
@click.option(
    "--special-symbol", "nothing", default="<eps>", show_default=True, help="Beside a word of one text alone."
)
@click.option("--separator", "between", default=";", show_default=True, help="Between pairs.")
@arguments(first="TEXT-RSPECIFIER", second="TEXT-RSPECIFIER", output="ALIGNMENT-WSPECIFIER")
def align_text(**given: Any) -> int:
    """Write the words of two texts side by side, so that they differ least: 'KEY a a ; b <eps> ; c c'.

    nnet3 align-text ark:text ark:heard ark,t:-
    """
    return later.scoring.align_texts(**given)


@verb()
@whole_number("--bos-symbol", "bos", least=1, required=True, help="The word that begins sentences.")
@whole_number("--eos-symbol", "eos", least=1, required=True, help="The word that ends sentences.")
@whole_number("--unk-symbol", "unk", default=-1, help="Stands for unknown words; -1: unknown words are not said.")
@ignored("--max-arpa-warnings", kind=integer())
@arguments(model="ARPA-FILE", output="CONST-ARPA-FILE")
def arpa_to_const_arpa(model: str, output: str, bos: int, eos: int, unk: int) -> None:
    """Make a const-arpa model, which rescoring maps into memory, of an n-gram model in the ARPA format. Its words must
    be integers above 0, such as words.txt gives them.

    nnet3 arpa-to-const-arpa --bos-symbol=1 --eos-symbol=2 --unk-symbol=4 lm.int.arpa G.carpa
    """
    later.graph_making.arpa_to_const_arpa(model, output, bos, eos, unk)


@verb()
@text_option("--disambig-symbol", "back_off", metavar="SYMBOL", help="Symbol of arcs that back off, such as #0.")
@text_option("--read-symbol-table", "read_table", metavar="FILE", help="Words and their labels.")
@text_option("--write-symbol-table", "write_table", metavar="FILE", help="Write words and their labels.")
@flag("--keep-symbols", help="Put the table into the FST, as is done without a table to read or write.")
@click.option("--bos-symbol", "begin", default="<s>", show_default=True, metavar="SYMBOL", help="Begins sentences.")
@click.option("--eos-symbol", "end", default="</s>", show_default=True, metavar="SYMBOL", help="Ends sentences.")
@ignored("--max-arpa-warnings", kind=integer())
@ignored("--ilabel-sort")  # arcs are always sorted
@arguments(model="ARPA-FILE", output="[FST]")
def arpa2fst(**given: Any) -> None:
    """Make an FST of words, whose states are histories. N-grams with words that the symbol table does not have are left
    out; without a table labels are those of Kaldi: back-off symbol, ends of sentences, words in the order of the file.

    With --disambig-symbol sentences are only words; without, symbols of their ends come before and behind these, and
    arcs that back off have no label. G.words.sha256 beside G.fst has the digest of the symbol table, so that mkgraph
    refuses a grammar of other words.

    nnet3 arpa2fst --disambig-symbol=#0 --read-symbol-table=lang/words.txt lm.arpa lang/G.fst
    """
    later.graph_making.arpa_to_fst(**given)


@verb()
@flag("--text", help="Has no effect: words are compared as they are written.")
@click.option("--mode", type=click.Choice(["strict", "all", "present"]), default="strict", show_default=True,
              help="Sentences that were not heard are an error, count as left out, or do not count.")  # fmt: skip
@arguments(said="REFERENCE-RSPECIFIER", heard="HYPOTHESIS-RSPECIFIER")
def compute_wer(said: str, heard: str, text: bool, mode: str) -> None:
    """Compare what was heard with what was said: the rates of wrong words and of wrong sentences.

    nnet3 compute-wer --text --mode=present ark:data/test/text ark:heard.txt
    """
    later.scoring.compute_wer(said, heard, mode)


@verb()
@arguments(source="FST-RSPECIFIER", output="FST-WSPECIFIER")
def fstcopy(source: str, output: str) -> int:
    """Copy a table of FSTs.

    nnet3 fstcopy scp:graphs.scp "ark:|gzip -c > graphs.gz"
    """
    return later.graph_making.copy_fsts(source, output)


@verb()
@click.option("--project-type", "side", type=click.Choice(["input", "output"]), default="input", show_default=True,
              help="The side whose labels are kept.")  # fmt: skip
@arguments(fst="[FST", output="[FST]]")
def fstproject(fst: str, output: str, side: str) -> None:
    """Copy the labels of one side of an FST to the other side, as OpenFst's program does: G.fst gets an acceptor of
    words, without #0, by its output side.

    nnet3 fstproject --project_type=output G.fst G_words.fst
    """
    later.graph_making.project(fst or "-", output or "-", side)


@verb()
@binary_option
@text_option("--phones", "sequences", metavar="RSPECIFIER", help="Sequences of phones whose pairs count.")
@whole_number("--min-count", least=1, default=100, help="Pairs of phones that come as often have pdfs of their own.")
@arguments(topology="TOPOLOGY", tree="TREE", model="[TRANSITION-MODEL]")
def init_tree(topology: str, tree: str, model: str, sequences: str, min_count: int, binary: bool) -> None:
    """Make a tree that gives pdfs to phones as they are, and its transition model. With --phones a phone behind another
    one has pdfs of its own where that is common enough, and shares them with others where it is not.

    nnet3 init-tree data/lang/topo tree 0.trans_mdl
    nnet3 init-tree --phones=ark:phones.ark --min-count=50 data/lang/topo tree 0.trans_mdl
    """
    later.graph_making.init_tree(topology, tree, model, sequences, min_count, binary)


@verb()
@whole_number("--nonterm-phones-offset", "first_symbol", least=2, required=True, help="#nonterm_bos in phones.txt.")
@flag("--write-as-grammar", "as_grammar", default=True, hidden=True)
@ignored("--make-mutable")
@arguments(names="FST...", output="OUT")
def make_grammar_fst(names: tuple[str, ...], output: str, first_symbol: int, as_grammar: bool) -> None:
    """Prepare a graph with nonterminals for grammars, or join a top graph and the graphs of nonterminals, each behind
    the number that #nonterm:NAME has in phones.txt, into the grammar that nnet3-latgen-grammar reads.

    nnet3 make-grammar-fst --nonterm-phones-offset=317 HCLG1.fst prepared1.fst
    nnet3 make-grammar-fst --nonterm-phones-offset=317 prepared.fst 321 prepared1.fst grammar.fst
    """
    if not as_grammar:
        raise click.UsageError("--write-as-grammar=false: a grammar is written as one, which decoders read")
    if len(names) == 1:
        later.graph_making.prepare_for_grammars(names[0], output, first_symbol)
    elif len(names) % 2:
        later.graph_making.make_grammar(names[0], names[1::2], names[2::2], output, first_symbol)
    else:
        raise click.UsageError("give a graph and the file to write, or a top graph and pairs of a number and a graph")


@verb()
@takes("options", DecodingGraphOptions)
@ignored("--remove-oov")
@arguments(lang="LANG-FOLDER", model="MODEL-FOLDER", folder="GRAPH-FOLDER")
def mkgraph(lang: str, model: str, folder: str, options: DecodingGraphOptions) -> None:
    """Make HCLG.fst, from transition-ids to words, of L_disambig.fst and G.fst in LANG-FOLDER and of tree and final.mdl
    in MODEL-FOLDER. Symbols and lists of phones are copied beside it; other files of GRAPH-FOLDER stay. Chain models
    take --self-loop-scale=1.0.

    nnet3 mkgraph --self-loop-scale=1.0 data/lang_test exp/chain/tdnn exp/chain/tdnn/graph
    """
    later.graph_making.make_graph(lang, model, folder, options)


@verb()
@takes("options", LangOptions)
@arguments(names="DICT-FOLDER OOV-WORD [TEMPORARY-FOLDER] LANG-FOLDER")
def prepare_lang(names: tuple[str, ...], options: LangOptions) -> None:
    """Make L.fst, L_disambig.fst, words.txt, phones.txt, the topology of chain models and lists of phones.

    The dictionary has lexicon.txt (or lexiconp.txt), silence_phones.txt, nonsilence_phones.txt and
    optional_silence.txt. Unknown words become OOV-WORD, which the lexicon must have. The third of four names is for the
    scripts of Kaldi, which put temporary files there. Other files of LANG-FOLDER, such as G.fst, stay.

    nnet3 prepare-lang --position-dependent-phones=false data/local/dict "<UNK>" data/lang
    """
    if len(names) not in (3, 4):
        raise click.UsageError("give the folder of a dictionary, the word for unknown ones, and the folder to write")
    later.graph_making.prepare_lang(names[0], names[1], names[-1], options)
