"""Graphs of sequence training: phone language model, denominator graph, normalization graph, supervision."""
