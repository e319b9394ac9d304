"""Random networks as ONNX files; `make soak` draws ten times as many."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import assume, given, settings

from nnet3 import cn
from nnet3.errors import NetworkError
from tests.cn.onnx.exported_network import ExportedNetwork
from tests.cn.random_graphs import networks
from tests.effort import draws
from tests.seeds import RANDOM


@settings(max_examples=draws(3))
@given(networks())
def test_files_of_any_length_and_of_one_are_what_evaluate_gives(made) -> None:
    criterion, last, _ = made
    try:
        network = cn.Network(outputs={"last": last, "criterion": criterion})
    except NetworkError:
        assume(False)
    with TemporaryDirectory() as folder:
        for frames in (0, 3):
            exported = ExportedNetwork(network, Path(folder), frames=frames)
            for length in (frames,) if frames else (1, 4, 9):
                batch = {
                    node.name: cn.sequences(RANDOM.normal(size=(2, node.shape.rows, length))) for node in network.inputs
                }
                exported.check(batch)
