"""An FST and its bytes, and FSTs to bytes and back."""

from __future__ import annotations

import numpy as np

from nnet3.kaldi_io import Fst, Reader, Writer, read_fst, write_acceptor, write_fst

WORKED = Fst.from_arcs(0, [np.inf, np.inf, 0], [0, 1], [1, 2], [1, 3], [0.5, 0])

WORKED_BYTES = bytes.fromhex(
    "d6fdb27e 10000000 636f6d706163745f6163636570746f72 08000000 7374616e64617264 02000000 00000000"
    "0100955a69950000 0000000000000000 0300000000000000 0200000000000000"
    "00000000 01000000 02000000 03000000"
    "01000000 0000003f 01000000  03000000 00000000 02000000  ffffffff 00000000 ffffffff"
)


def fst_bytes(fst: Fst, binary: bool = True, acceptor: bool = False) -> bytes:
    writer = Writer(binary)
    (write_acceptor if acceptor else write_fst)(writer, fst)
    return writer.getvalue()


def fst_from(contents: bytes, binary: bool = True) -> Fst:
    reader = Reader(contents, binary=binary)
    fst = read_fst(reader)
    assert reader.position == len(contents)
    return fst
