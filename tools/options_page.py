"""Write docs/options.md: all options, from their declarations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from nnet3 import options
from nnet3.base.options.network_training import NetworkTrainingOptions
from nnet3.options import Options, declared
from nnet3.training.runs.data_kinds import KINDS
from nnet3.training.runs.settings import SECTIONS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"
INTRODUCTION = """\
# Options

This page is written by `make options` from the declarations in `nnet3/base/options/`, those of `cn.train` and those of
the settings file. An option has one name: `batchnorm_stats_scale` in Python is `batchnorm-stats-scale` in a settings
file and `--batchnorm-stats-scale` on a command line, unless another name stands beside it. Values that break the rule
are refused everywhere.
"""
_NO_OPTIONS = {"Options", "Option", "DerivTimes", "StepOptions", "InputOptions", "ChainMergingOptions"}


def page() -> str:
    """The whole page."""
    lines = [INTRODUCTION, "## In Python and on command lines"]
    for name in sorted(vars(options)):
        found = getattr(options, name)
        if isinstance(found, type) and issubclass(found, Options) and name not in _NO_OPTIONS:
            lines += ["", f"### {name}", *_section(found)]
    lines += ["", "## Of `cn.train`", "", "### NetworkTrainingOptions", *_section(NetworkTrainingOptions)]
    lines += ["", "## In the settings file of `train-model`"]
    data, objectives = KINDS.sections
    kinds = {
        **{f"data, kind {kind}": section for kind, section in data.items()},
        **{f"objective, kind {kind}": section for kind, section in objectives.items()},
    }
    for name, section in {**SECTIONS, **kinds}.items():
        if declared(section):
            lines += ["", f"### [{name}]", *_section(section, in_file=True)]
    return "\n".join(lines) + "\n"


def _section(found: type[Options], *, in_file: bool = False) -> Iterator[str]:
    yield from ("", (found.__doc__ or "").split("\n\n")[0].strip().replace("\n    ", " "), "")
    yield from ("| option | default | values | unit | meaning |", "|---|---|---|---|---|")
    for item in declared(found):
        flag = f" (`--{item.flag}`)" if item.flag != item.key and not in_file else ""
        name = item.key if in_file else item.name
        default = item.program_default if in_file else item.default
        other = f"; programs: {item.program_default}" if item.program_default != item.default and not in_file else ""
        cells = (f"`{name}`{flag}", f"{_shown(default)}{other}", item.kind.expected, item.unit, item.help)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|').replace('<', '&lt;') for cell in cells)} |"


def _shown(default: object) -> str:
    if default is None or default in ("", ()):
        return "none"
    return str(default).lower() if isinstance(default, bool) else str(default)


if __name__ == "__main__":
    sys.exit(PAGE.write_text(page()) == 0)
