"""What a release consists of: one version everywhere, extras that are tried, an image that is not root."""

from __future__ import annotations

import re

import nnet3
from tests.docs.doctest_page import DOCS
from tools.try_wheel import EXTRAS

ROOT = DOCS.parent
PROJECT = (ROOT / "pyproject.toml").read_text()


def test_there_is_one_version() -> None:
    for path in ("pyproject.toml", "CITATION.cff"):
        found = re.findall(r"^version(?: =|:) \"?([0-9.]+)\"?$", (ROOT / path).read_text(), re.MULTILINE)
        assert found == [nnet3.__version__], path


def test_each_extra_is_tried() -> None:
    section = PROJECT.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    extras = set(re.findall(r"^(\w+) = \[", section, re.MULTILINE))
    assert extras - {"dev", "docs", "release"} == set(EXTRAS)


def test_names_in_the_makefile_and_the_readme_are_there() -> None:
    makefile, readme = ((ROOT / name).read_text() for name in ("Makefile", "README.md"))
    room = re.search(r"^ROOM \?= ([\w/]+)$", makefile, re.MULTILINE)
    assert room is not None
    assert (ROOT / "src/nnet3" / room[1]).is_dir()
    commands = readme.partition("## Two commands of a clone\n\n```\n")[2].partition("```")[0].splitlines()
    assert [line.partition("#")[0].split() for line in commands] == [["make", "demo"], ["make", "test"]]


def test_the_package_imports_what_its_extras_install() -> None:
    section = PROJECT.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    lines = re.findall(r"^(?!dev|docs|release)\w+ = \[(.*)\]", section, re.MULTILINE)
    packages = {name for line in lines for name in re.findall(r'"([\w-]+)>=', line)}
    modules = {"pyyaml": "yaml", "scikit-learn": "sklearn"}
    texts = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    assert len(packages) >= 10
    for package in packages:
        module = modules.get(package, package.replace("-", "_"))
        imported = re.search(rf"(?:import|from) (?:torch\.utils\.)?{module}\b", texts)
        assert imported or f'find_spec("{module}")' in texts, package


def test_all_that_pages_need_is_in_the_wheel() -> None:
    assert '"explore/static/*"' in PROJECT
    assert (ROOT / "src/nnet3/explore/static/dagre.LICENSE").read_text().startswith("Copyright")


def test_the_image_is_not_root_and_serves() -> None:
    lines = (ROOT / "Containerfile").read_text().splitlines()
    assert lines.index("USER nnet3") < lines.index('ENTRYPOINT ["nnet3", "serve"]')
    assert all("slim" in line for line in lines if line.startswith("FROM "))
