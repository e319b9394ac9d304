"""Chooses the tests of `make quick` by the times of a whole run, `make test` with `--junitxml=times.xml`.

`python -m tools.quick_tests times.xml > tests/quick.txt` lists the files each test of which takes less than 0.1 s.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import click


def quick_files(times: Path, most: float) -> list[str]:
    """Returns the test files of a junit file without a test that takes `most` seconds or more, sorted."""
    slowest: defaultdict[str, float] = defaultdict(float)
    for case in ElementTree.parse(times).iter("testcase"):
        module = re.sub(r"(\.test_\w+)\..*", r"\1", case.attrib["classname"])  # without the name of a class
        slowest[module] = max(slowest[module], float(case.attrib["time"]))
    return sorted(f"{module.replace('.', '/')}.py" for module, seconds in slowest.items() if seconds < most)


@click.command(help=__doc__)
@click.argument("times", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--most", default=0.1, show_default=True, help="Seconds; more if the machine had other work.")
def main(times: Path, most: float) -> None:
    print(*quick_files(times, most), sep="\n")


if __name__ == "__main__":
    main()
