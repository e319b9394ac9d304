"""Write the tables of docs/onnx.md: which component types and which golden networks can be exported in which form."""

from __future__ import annotations

import argparse
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

import nnet3
from nnet3.components import COMPONENT_TYPES, Component
from nnet3.errors import Nnet3Error
from nnet3.model.nnet import Nnet
from tools.component_samples import SAMPLES

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "onnx.md"
HEADING = "## What can be exported\n"
_FACTOR, _CHUNK = 3, 21  # of golden networks

_INTRODUCTION = """
`make onnx` has written these tables by exporting: each yes is a file that agrees with nnet3 in onnxruntime. *own
lengths*: it agrees for `least_rows`, `rows_step` more, ... rows, and does as if others were longer.

All {count} component types, each in a network of its own, in test mode; pooling is behind extraction.

"""
_NETWORKS = """
Networks of published recipes with reduced widths and random parameters, which Kaldi itself has run, at a third of the
frame rate, and x-vectors. In *int8* stands the error of a file for chunks; it is larger for random parameters than for
trained ones.

"""


def network_of(component: Component) -> Nnet:
    """Returns input -> the component -> output; pooling has extraction before it."""
    dim = max(component.input_dim, 1)
    lines = [
        f"component name=tried type=NoOpComponent dim={dim}",
        "component-node name=tried component=tried input=input",
        "output-node name=output input=tried",
    ]
    components = {"tried": component}
    if component.type_name == "StatisticsPoolingComponent":
        features = (dim - 1) // 2
        components["extract"] = nnet3.components.create("StatisticsExtractionComponent", f"input-dim={features}")
        lines = [
            f"component name=extract type=StatisticsExtractionComponent input-dim={features}",
            "component-node name=extract component=extract input=input",
            *(line.replace("input=input", "input=extract") for line in lines),
        ]
        dim = features
    made = Nnet.from_config("\n".join([f"input-node name=input dim={dim}", *lines]))
    return Nnet(made.nodes, components)


def sample_of(type_name: str) -> Component:
    return nnet3.components.create(type_name, SAMPLES[type_name], seed=1)


def _cell(nnet: Nnet, **options: Any) -> str:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # batch-norm without statistics
        try:
            about = nnet3.export_onnx(nnet, Path(folder) / "model.onnx", **options)
        except Nnet3Error as error:
            return f"no: {error}".replace("; for ONNX, a fixed number of frames_per_chunk may do", "")
    if about.quantize != "none":
        return f"{about.error:.1g}"
    return "yes" if about.input_frames or about.any_length else "own lengths"


def type_row(type_name: str) -> str:
    nnet = network_of(sample_of(type_name))
    forms: list[dict[str, Any]] = [{"frames_per_chunk": 6}, {}, {"frames_per_chunk": 6, "streaming": True}]
    return _line([type_name.removesuffix("Component"), *(_cell(nnet, **options) for options in forms)])


def network_row(path: Path) -> str:
    nnet, origin = nnet3.load_nnet(path), path.with_name("origin.txt")
    kind = re.search(r"(\w+)\.sh", origin.read_text()) if origin.exists() else None
    name = f"{path.parent.parent.name}/{path.parent.name}" + (f" ({kind[1].removeprefix('run_')})" if kind else "")
    is_vector = path.parent.parent.name == "xvector"
    free: dict[str, Any] = {"vector": True} if is_vector else {"frame_subsampling_factor": _FACTOR}
    chunk = {"frames_per_chunk": _CHUNK, **free}
    streams = "" if is_vector else _cell(nnet, **chunk, streaming=True)
    return _line([name, _cell(nnet, **chunk), _cell(nnet, **free), streams, _cell(nnet, **chunk, quantize="int8")])


def tables(golden: Path) -> str:
    """Returns both tables."""
    lines = [
        _INTRODUCTION.format(count=len(COMPONENT_TYPES)),
        _line(["type", "chunks", "any length", "streams"]),
        _line(["---"] * 4),
    ]
    lines += [type_row(type_name) for type_name in sorted(COMPONENT_TYPES)]
    lines += [_NETWORKS, _line(["network", "chunks", "any length", "streams", "int8"]), _line(["---"] * 5)]
    paths = [path for name in ("decode", "recipe", "xvector") for path in golden.glob(f"{name}/*/model.raw")]
    lines += [network_row(path) for path in sorted(paths)]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, required=True, help="the shared folder, which holds golden/")
    golden = parser.parse_args().shared / "golden"
    if not golden.is_dir():
        parser.error(f"{golden} is not there")
    text = PAGE.read_text()
    before = text[: text.index(HEADING)] if HEADING in text else f"{text}\n"
    PAGE.write_text(f"{before}{HEADING}{tables(golden)}")


if __name__ == "__main__":
    main()
