"""The tests of layers leave no type out."""

from __future__ import annotations

from nnet3.model.xconfig.line import read_xconfig_lines
from nnet3.xconfig import LAYER_TYPES
from tests.shared_data import GOLDEN, needs_shared
from tests.xconfig import layer_contract


def test_every_file_that_declares_types_has_its_tests() -> None:
    homes = {layer_contract.module_of(kind.expand).rsplit(".", 1)[1] for kind in LAYER_TYPES.values()}
    assert [home for home in sorted(homes) if not (layer_contract.LAYERS / f"test_{home}.py").exists()] == []


@needs_shared
def test_every_type_has_lines_here_or_in_the_golden_data() -> None:
    paths = [*GOLDEN.glob("xconfig/*/network.xconfig"), *GOLDEN.glob("bench/*/network.xconfig")]
    files = sorted(layer_contract.LAYERS.glob("*.config"))
    here = {layer.split()[0] for file in files for layer in layer_contract.expected_lines(file)}
    golden = {line.type for path in paths for line in read_xconfig_lines(path.read_text())}
    assert here | golden == set(LAYER_TYPES)
    assert not here & golden
