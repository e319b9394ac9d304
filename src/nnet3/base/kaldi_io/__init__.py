"""Kaldi's text and binary streams: tokens, numbers, vectors, matrices, tables; no network here."""
