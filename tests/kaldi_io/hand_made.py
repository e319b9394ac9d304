"""Readers of bytes and text written by hand."""

from __future__ import annotations

from nnet3.kaldi_io import Reader


def binary(hexadecimal: str) -> Reader:
    return Reader(bytes.fromhex(hexadecimal), binary=True)


def text(contents: str) -> Reader:
    return Reader(contents.encode())
