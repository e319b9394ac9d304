"""Write docs/xconfig.md: the language of xconfigs and all layer types, from their declarations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from nnet3.model.xconfig.layer_types import FAMILIES
from nnet3.model.xconfig.manual import drawing, example_lines, expansion_lines, key_rows
from nnet3.xconfig import LayerType

PAGE = Path(__file__).resolve().parents[1] / "docs" / "xconfig.md"

INTRODUCTION = """\
# Xconfigs

This page is written by `make xconfig` from the declarations of the layers. `nnet3 xconfig-help LAYER` prints what it
says of a layer.

An xconfig describes a network as layers, one a line; this is how Kaldi's recipes describe theirs:

```xconfig
input name=ivector dim=100
input name=input dim=40
fixed-affine-layer name=lda input=Append(-1,0,1,ReplaceIndex(ivector, t, 0)) affine-transform-file=lda.mat
relu-batchnorm-layer name=tdnn1 dim=512
tdnnf-layer name=tdnnf2 dim=512 bottleneck-dim=64 time-stride=3
output-layer name=output dim=200 input=tdnnf2@-1   # a frame earlier
```

| to | say |
|---|---|
| make a network | `nnet3 init network.xconfig 0.raw`, or `nnet3.Nnet.from_xconfig(text, lda=matrix)` |
| make the files of Kaldi's scripts | `nnet3 xconfig-to-configs --xconfig-file=network.xconfig --config-dir=configs` |
| put layers on a network | `--existing-model=1.raw`, or `nnet.apply_xconfig(text)` |
| see the layers of a trained network | `nnet3 describe final.mdl`, or `nnet.to_xconfig()` |
| look at it | `nnet3 draw network.xconfig network.svg`, `nnet3 info network.xconfig` |

Where the scripts crash or write what nnet3 refuses, see [kaldi_differences.md](kaldi_differences.md). What the config
lines mean that a layer stands for says [config_language.md](config_language.md).

## Lines

* A line is a layer type and `key=value` pairs; every layer needs a `name`, which no other layer has. What comes after
  `#` is a comment. There are no continuation lines.
* A value may hold blanks (`input=Append(-1, 0, 1) dim=3`). One that holds an `=` is put in double quotes:
  `ng-affine-options="max-change=1.5 rank-in=30"`.
* The type of a value is that of the key's default. Keys of type *text* that hold a number, `l2-regularize` among them,
  are handed to the components as they are, and not at all if they are not given.

## Inputs

`input` is a descriptor of layers *above*. Without it a layer takes the layer above, whatever that is: recipes put the
`input` that is to be spliced last for this reason.

| form | what it is |
|---|---|
| `tdnn1` | the output of a layer |
| `tdnn1@-3` | the same three frames earlier: `Offset(tdnn1, -3)` |
| `-3`, `0` | the layer above, three frames earlier or as it is |
| `[-2]`, `[-2]@3` | the second layer above |
| `output.affine`, `output.log-softmax` | parts of an output-layer, whose output itself nothing can follow |
| `Append(D, ...)` | side by side: dimensions add up |
| `Sum(D, ...)`, `Switch(D, ...)`, `Failover(D, D)`, `IfDefined(D)` | of equal dimensions |
| `Offset(D, t)`, `Round(D, n)`, `ReplaceIndex(D, t, n)`, `Scale(a, D)`, `Const(a, dim)` | as in configs |

## Layer types

In the drawings, a bar alone means that a node reads the one above; if it reads something else, that is beside the bar.
`.x` is the layer's node `x`, and `=>` is what other layers get.
"""


def page() -> str:
    """The whole page."""
    lines = [INTRODUCTION]
    for family, types in FAMILIES.items():
        names = ", ".join(f"[{layer_type.name}](#{layer_type.name})" for layer_type in types)
        lines.append(f"* {family}: {names}")
    for family, types in FAMILIES.items():
        lines += ["", f"## {family}"]
        shared = {tuple(key_rows(layer_type)) for layer_type in types}
        is_shared = len(types) > 1 and len(shared) == 1
        if is_shared:
            lines += ["", f"All {len(types)} types have the same keys:", "", *_key_table(types[0])]
        for layer_type in types:
            lines += ["", *_section(layer_type, with_keys=not is_shared)]
    return "\n".join(lines) + "\n"


def _section(layer_type: LayerType, *, with_keys: bool) -> Iterator[str]:
    yield from (f"### {layer_type.name}", "", layer_type.summary, "")
    if with_keys:
        yield from (*_key_table(layer_type), "")
    yield from ("```xconfig", *example_lines(layer_type), "```", "")
    yield from ("```text", *drawing(layer_type), "```", "")
    yield from ("<details><summary>The config lines that it stands for</summary>", "")
    yield from ("```config", *expansion_lines(layer_type), "```", "", "</details>")


def _key_table(layer_type: LayerType) -> Iterator[str]:
    rows = key_rows(layer_type)
    if not rows:
        return
    yield "| key | type | default | values | meaning |"
    yield "|---|---|---|---|---|"
    for row in rows:
        cells = (f"`{row.name}`", row.kind, row.default, row.values, row.meaning)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|').replace('<', '&lt;') for cell in cells)} |"


def main() -> int:
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
