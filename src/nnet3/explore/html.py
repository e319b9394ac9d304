"""One HTML file of data and scripts. Nothing in it is fetched, and no name in the data becomes markup or code."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

_STATIC = files("nnet3.explore") / "static"
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src {scripts}; style-src {styles}; \
img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{css}</style>
</head>
<body>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def static(name: str) -> str:
    """Returns a file that belongs to the pages."""
    return (_STATIC / name).read_text(encoding="utf-8")


def page(title: str, data: dict[str, Any], scripts: Sequence[str]) -> str:
    """Returns a page that shows `data` by the given scripts; scripts find the data in the element `data`.

    The page's policy lets no other scripts run.
    """
    script, css = "\n".join(static(name) for name in scripts), static("page.css")
    return _PAGE.format(
        scripts=_source(script),
        styles=_source(css),
        title=html.escape(title),
        css=css,
        data=_json(data),
        script=script,
    )


def _json(data: dict[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)


def _source(text: str) -> str:
    """Returns the name of an inline script or style in a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
