"""Files of grammars, as Kaldi's make-grammar-fst writes them."""

from __future__ import annotations

from nnet3.kaldi_io import Writer
from nnet3.speech.search.grammar_graph import Grammar
from tests.kaldi_io.graph_bytes import const_bytes


def grammar_bytes(grammar: Grammar) -> bytes:
    writer = Writer(True)
    writer.header()
    writer.token("<GrammarFst>")
    for number in (1, len(grammar.parts), grammar.first_symbol):
        writer.int32(number)
    writer.raw(const_bytes(grammar.top))
    for nonterminal, fst in grammar.parts.items():
        writer.int32(nonterminal)
        writer.raw(const_bytes(fst))
    writer.token("</GrammarFst>")
    return writer.getvalue()
