"""Files of grammars, as Kaldi's make-grammar-fst writes them."""

from __future__ import annotations

from nnet3.kaldi_io import Writer
from nnet3.speech.search.grammar_graph import Grammar, write_grammar


def grammar_bytes(grammar: Grammar) -> bytes:
    writer = Writer.of_file(binary=True)
    write_grammar(writer, grammar)
    return writer.getvalue()
