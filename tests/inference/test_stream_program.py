"""StreamProgram: the chunks of networks of all kinds."""

from __future__ import annotations

import numpy as np
import pytest

import nnet3
from nnet3.decode import StreamProgram
from nnet3.engine.lowering import carried_rows
from nnet3.errors import NetworkError, RequestError
from nnet3.options import StreamOptions
from tests.inference.stream_networks import CONFIGS, network


def _program(name: str, frames: int = 7, factor: int = 1) -> StreamProgram:
    return StreamProgram.of(network(name), StreamOptions(frames_per_chunk=frames, frame_subsampling_factor=factor))


@pytest.mark.parametrize("name", CONFIGS)
def test_each_chunk_is_given_what_the_one_before_hands_on(name: str) -> None:
    program = _program(name)
    assert not program.chunks[0].before
    for number in range(len(program.chunks) + 1):
        one, other = (program.chunks[program.chunk_index(k)] for k in (number, number + 1))
        assert {n: len(table) for n, table in one.after.items()} == {n: len(t) for n, t in other.before.items()}
        for node, table in other.before.items():
            moved = set(np.unique(table[:, 1] - one.after[node][:, 1]).tolist())
            assert len(moved - {0}) <= 1  # all but rows at constant times move together


def test_statistics_of_blocks_come_round_after_several_chunks() -> None:
    program = _program("blocks")
    assert (len(program.head), len(program.cycle)) == (1, 5)  # 5 * 7 is a multiple of the block, 5
    assert [program.chunk_index(number) for number in range(8)] == [0, 1, 2, 3, 4, 5, 1, 2]


def test_what_is_looked_at_in_vain_is_kept_for_the_chunk_that_finds_it() -> None:
    program = _program("echo")  # the first chunks use nothing of the past, and look 20 frames back
    before = [len(chunk.before.get("tanh", ())) for chunk in program.chunks]
    assert before == [0, 7, 14, 20]
    assert len(program.cycle) == 1


def test_a_recurrence_keeps_one_row_of_each_state() -> None:
    (chunk,) = _program("lstm", frames=21, factor=3).cycle
    assert {node: table.tolist() for node, table in chunk.before.items()} == {"lstm": [[0, -6, 0], [0, -3, 0]]}
    assert {node: len(table) for node, table in chunk.new.items()} == {"input": 21}


def test_rows_at_constant_times_stay() -> None:
    program = _program("fixed")
    (chunk,) = program.cycle
    assert 2 in chunk.before["h"][:, 1]
    assert (chunk.before["h"][:, 1] == 2).sum() == (chunk.after["h"][:, 1] == 2).sum() == 1


def test_only_the_first_ivector_of_a_line_changes() -> None:
    program = _program("ivector")
    assert any("Round(ivector, 7), ReplaceIndex(ivector, t, 0)" in line for line in program.nnet.config_lines())
    assert program.chunks[0].new["ivector"][:, 1].tolist() == [-7, 0, 7]
    assert [len(chunk.new["ivector"]) for chunk in program.cycle] == [1]


def test_networks_that_cannot_be_run_in_chunks_are_refused() -> None:
    endless = CONFIGS["statistics"].replace("left-context=20", "left-context=10000")
    with pytest.raises(RequestError, match=r"chunks of 10 frames do not come to repeat .* at node 'input'"):
        nnet3.StreamComputer(nnet3.Nnet.from_config(endless), 7, 1, 1)
    backwards = CONFIGS["ivector"].replace("ReplaceIndex(ivector, t, 0)", "ReplaceIndex(ivector, t, 5)")
    with pytest.raises(NetworkError, match=r"only if ReplaceIndex sets t to 0.*component-node name=a"):
        nnet3.StreamComputer(nnet3.Nnet.from_config(backwards))
    with pytest.raises(NetworkError, match="only a simple network can be run in streams"):
        nnet3.StreamComputer(nnet3.Nnet.from_config("input-node name=x dim=2\noutput-node name=output input=x"))


def test_rows_that_are_missing_before_the_beginning_are_not_looked_for_ever_further_back() -> None:
    """Of two recurrences, the second reads rows three frames back that the first never has: one lacking row says so."""
    layers = "".join(
        f"relu-layer name=r{k} dim=4 input=Append(0, IfDefined(-3))\nlstmp-layer name=l{k} cell-dim=4 "
        "recurrent-projection-dim=2 non-recurrent-projection-dim=2 delay=-1\n"
        for k in range(2)
    )
    nnet = nnet3.Nnet.from_xconfig(f"input dim=4 name=input\n{layers}output-layer name=output dim=3")
    sweeps = []
    original = carried_rows._History.add

    def add(self: carried_rows._History, chunk: carried_rows.ChunkRows) -> None:
        sweeps.append(chunk)
        original(self, chunk)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(carried_rows._History, "add", add)
        program = StreamProgram.of(nnet, StreamOptions(frames_per_chunk=1))
    assert len(sweeps) < 12
    assert len(program.chunks) == 4
