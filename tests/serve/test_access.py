"""AccessRules: origins and names, with ports and without; addresses and networks."""

from __future__ import annotations

import pytest
from websockets.datastructures import Headers

from nnet3.errors import ArgumentError
from nnet3.options import ServeOptions
from nnet3.speech.serve.access import AccessRules

ALLOWED = "https://speech.example, http://lan:8080/"


def refused(origin: str | None, name: str | None, is_connection: bool = True, **options: str) -> str | None:
    named = {"Origin": origin, "Host": name}
    headers = Headers({name: value for name, value in named.items() if value is not None})
    return AccessRules(ServeOptions(**{"allow_origin": ALLOWED, **options})).refusal(headers, is_connection)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (None, "any.example"),  # a program
        (None, None),
        ("http://127.0.0.1:2700", "127.0.0.1:2700"),
        ("http://localhost", "localhost:80"),
        ("http://localhost:80", "localhost"),
        ("https://localhost", "localhost"),
        ("http://[::1]:2700", "[::1]:2700"),
        ("http://LOCALHOST:2700", "localhost:2700"),
        ("https://speech.example", "127.0.0.1:2700"),  # behind what hands connections on
        ("https://speech.example:443", "speech.example"),
        ("http://lan:8080", "lan:8080"),
        ("http://lan:2700", "lan:2700"),  # the same name
    ],
)
def test_let_in(origin: str | None, host: str | None) -> None:
    assert refused(origin, host) is None


@pytest.mark.parametrize(
    ("origin", "host", "reason"),
    [
        ("https://evil.example", "127.0.0.1:2700", "pages of 'https://evil.example' may not connect"),
        ("http://localhost:3000", "localhost:2700", "pages of 'http://localhost:3000' may not connect"),
        ("null", "localhost:2700", "pages of 'null' may not connect"),
        ("", "localhost:2700", "pages of '' may not connect"),
        ("http://evil.example:2700", "evil.example:2700", "does not go by the name 'evil.example:2700'"),
        ("http://speech.example", "127.0.0.1", "pages of 'http://speech.example' may not connect"),
        ("http://localhost.evil.example", "localhost.evil.example", "does not go by the name"),
        ("http://1.2.3.4.evil.example", "1.2.3.4.evil.example", "does not go by the name"),
        ("http://127.0.0.1:2700", None, "may not connect"),
    ],
)
def test_refused(origin: str, host: str | None, reason: str) -> None:
    assert reason in (refused(origin, host) or "")
    assert refused(origin, host, allow_origin="*") is None


def test_pages_have_names_too() -> None:
    """A page that its own name has led here asks without an origin."""
    for host in ("localhost:2700", "10.0.0.7", "[fe80::1]:2700", "speech.example", "lan", None):
        assert refused(None, host, is_connection=False) is None
    assert "--allow-origin" in (refused(None, "evil.example", is_connection=False) or "")
    assert refused(None, "asr.lan:2700", is_connection=False, host="asr.lan") is None


def test_two_headers_of_a_kind() -> None:
    headers = Headers([("Origin", "http://localhost"), ("Origin", "https://evil.example"), ("Host", "localhost")])
    assert AccessRules(ServeOptions()).refusal(headers, True) is not None


def test_addresses() -> None:
    others = [
        "10.0.0.1",
        "::ffff:10.0.0.1",
        "2001:db8::1",
        "2001:db8::2",
        *["127.0.0.1", "::1"] * 2,
        *["fe80::1%eth0", "fe80::3%eth0"],
    ]
    access = AccessRules(ServeOptions(max_per_address=2))
    full = ["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::abcd"]
    free = ["10.0.0.2", "2001:db8:1::1", "127.0.0.1", "::1", "::ffff:127.0.0.1", "fe80::2%eth0"]
    assert [access.is_full(address, others) for address in full + free] == [True] * len(full) + [False] * len(free)
    assert not AccessRules(ServeOptions(max_per_address=0)).is_full("10.0.0.1", others * 9)


@pytest.mark.parametrize(
    "text", ["speech.example", "https://", "https://a/path", "https://a b", "https://a,,https://b"]
)
def test_what_is_no_origin(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"must be an origin such as \S+ or \S+, or \*, got '[^']*'\.?$"):
        ServeOptions(allow_origin=text)
