"""Pages in a headless browser: each view is opened and used, with the mouse, with keys, in the dark and enlarged."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest

from nnet3 import cn
from nnet3.explore import PageServer, explore
from tests.explore.browser import missing, visit
from tests.explore.models import HOSTILE, computational_network, hostile, long_chain, lstm, request

pytestmark = pytest.mark.skipif(missing() != "", reason=f"no browser to look with: {missing()}")
VIEWS = ("network", "time", "program", "memory", "profile")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nnet = lstm()
    path = tmp_path_factory.mktemp("explore") / "page.html"
    path.write_text(explore(nnet, request(nnet), title="lstm.xconfig"))
    return path


def test_layers_open_into_nodes_with_their_numbers(page: Path) -> None:
    seen = visit(
        page,
        [
            ["count", ".box"],
            ["click", ".box:has-text('tdnnf2') >> nth=0"],
            ["text", ".network .details"],
            ["click", "#open"],
            ["count", ".box"],
            ["count", ".histogram rect"],
            ["fill", "input[type=search]", "lstmnonlin"],
            ["text", ".network .found"],
            ["press", "Enter"],
            ["text", ".network .details"],
            ["evaluate", "location.hash"],
        ],
    )
    assert seen.errors == []
    assert seen.requests == [page.as_uri()]
    before, details, after, bars, found, lstm_details, address = seen.found
    assert before == 15
    assert after == 18
    assert "TdnnComponent, 16 → 4, 128 parameters" in details
    assert "linear_params" in details
    assert bars > 40
    assert found == "1 of 15 layers"
    assert "LstmNonlinearityComponent" in lstm_details
    assert address == "#network/lstm.lstm_nonlin"


def test_what_a_frame_depends_on(page: Path) -> None:
    cell = 230 + 20 * (2 + 4) + 10  # the column of t = 4: the first one is t = -2
    steps = [
        ["click", "#tab-time"],
        ["hoverAt", ".frame", cell, 24 + 10],
        ["text", ".time .said"],
        ["text", ".time .bar"],
    ]
    seen = visit(page, steps)
    assert seen.errors == []
    said, sizes = seen.found
    assert said.startswith("output t=4: step ")
    assert said.endswith(": input t=-1..6")  # the recurrence looks at t = 1, and that at t = -1
    assert "51 steps in 20 epochs" in sizes


def test_commands_lead_to_nodes_and_matrices(page: Path) -> None:
    seen = visit(
        page,
        [
            ["click", "#tab-program"],
            ["click", ".passes button:has-text('share_copies')"],
            ["text", ".program [role=status]"],
            ["fill", ".program input", "tdnn1.affine.Propagate"],
            ["count", ".program .row"],
            ["click", ".program .row"],
            ["text", ".program .details"],
            ["click", ".program .details button"],
            ["texts", ".program .row code"],
            ["click", ".program .row"],
            ["click", ".program .details button:has-text('in memory')"],
            ["text", ".memory .said"],
            ["click", "#tab-program"],
            ["click", ".program .row"],
            ["click", ".program .details a"],
            ["text", ".network .details h2"],
        ],
    )
    assert seen.errors == []
    status, rows, details, commands, place, node = seen.found
    assert "new or changed" in status
    assert rows == 1
    assert "node tdnn1.affine" in details
    assert "value: tdnn1.affine" in details
    assert all(commands)
    assert " at byte " in place
    assert node == "tdnn1"


def test_memory_and_profile(page: Path) -> None:
    seen = visit(
        page,
        [
            ["click", "#tab-memory"],
            ["text", "#peak"],
            ["count", ".arena rect"],
            ["hover", ".arena rect"],
            ["text", ".memory .said"],
            ["click", "#tab-profile"],
            ["choose", ".profile select", "kind"],
            ["texts", ".bars th[scope=row]"],
            ["click", ".flame g:has-text('lstm.lstm_nonlin')"],
            ["count", ".flame g"],
        ],
    )
    assert seen.errors == []
    peak, blocks, block, kinds, flames = seen.found
    assert peak.startswith("peak: ")
    assert blocks > 20
    assert " at byte " in block
    assert {"Propagate", "Backprop"} <= set(kinds)
    assert flames >= 4


def test_keys_alone_are_enough(page: Path) -> None:
    seen = visit(
        page,
        [
            ["focus", "#tab-network"],
            ["press", "ArrowRight"],
            ["evaluate", "location.hash"],
            ["focus", ".frame"],
            ["press", "ArrowRight"],
            ["text", ".time .said"],
            ["focus", "#tab-time"],
            ["press", "ArrowRight"],
            ["focus", ".program .rows"],  # waits for the view
            ["press", "/"],
            ["evaluate", "document.activeElement.getAttribute('aria-label')"],
            ["focus", ".program .rows"],
            ["press", "End"],
            ["text", ".program .details h2"],
            ["focus", "#tab-program"],
            ["press", "ArrowRight"],
            ["focus", ".arena"],
            ["press", "ArrowRight"],
            ["text", ".memory .said"],
            ["focus", "#tab-network"],
            ["click", "#tab-network"],
            ["focus", ".box"],
            ["press", "Enter"],
            ["evaluate", "document.activeElement.getAttribute('class')"],
        ],
    )
    assert seen.errors == []
    address, frame, focused, last_command, block, box_class = seen.found
    assert address == "#time"
    assert frame.startswith("output t=1: ")
    assert focused == "filter commands"
    assert re.match(r"c1\d\d: ", last_command)
    assert " at byte " in block
    assert "chosen" in box_class


CONTRAST = """
(() => {
  const light = (colour) => {
    const parts = colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ratios = [...document.querySelectorAll("h1, .facts, .found, [role=tab], .row, .details p")].map((each) => {
    let under = each;
    while (getComputedStyle(under).backgroundColor === "rgba(0, 0, 0, 0)") under = under.parentElement;
    const [a, b] = [light(getComputedStyle(each).color), light(getComputedStyle(under).backgroundColor)].sort();
    return (b + 0.05) / (a + 0.05);
  });
  return Math.min(...ratios);
})()
"""


@pytest.mark.parametrize("dark", [False, True])
def test_texts_can_be_read(page: Path, dark: bool) -> None:
    seen = visit(page, [["evaluate", CONTRAST]], dark=dark)
    assert seen.errors == []
    (contrast,) = seen.found
    assert contrast >= 4.5  # as the guidelines for accessible pages ask of small text


def test_it_can_be_enlarged(page: Path) -> None:
    """A window of 1200 x 800 at 200 % has 600 x 400 pixels: nothing lies beside it, and views are still used."""
    wide = "document.documentElement.scrollWidth <= window.innerWidth"
    steps = [[what, *given] for view in VIEWS for what, *given in (["click", f"#tab-{view}"], ["evaluate", wide])]
    seen = visit(
        page,
        [*steps, ["click", "#tab-program"], ["click", ".program .row"], ["text", ".program h2"]],
        width=600,
        height=400,
    )
    assert seen.errors == []
    *fits, command = seen.found
    assert fits == [True] * len(VIEWS)
    assert command.startswith("c0: ")


def test_pictures_keep_their_size_when_it_is_enlarged(page: Path) -> None:
    """They are scrolled, so that their labels grow with all else."""
    steps = [
        [what, *given]
        for view, picture in (("memory", ".arena"), ("profile", ".flame"))
        for what, *given in (
            ["click", f"#tab-{view}"],
            ["evaluate", f"document.querySelector('{picture}').getBoundingClientRect().width >= 1000"],
        )
    ]
    assert visit(page, steps, width=600, height=400).found == [True, True]


def test_nothing_is_run_that_a_name_says(tmp_path: Path) -> None:
    nnet = hostile(tmp_path)
    path = tmp_path / "hostile.html"
    path.write_text(explore(nnet, request(nnet), title=HOSTILE))
    steps = [["text", "h1"], ["click", ".box:has-text('a')"], ["count", "body script"]]
    steps += [["fill", "input[type=search]", HOSTILE], ["text", ".network .found"]]
    steps += [["click", "#tab-program"], ["texts", ".program .row code"], ["click", "#tab-profile"]]
    seen = visit(path, steps)
    assert seen.errors == []
    title, scripts, found, commands = seen.found
    assert title == HOSTILE
    assert scripts == 2
    assert found == "1 of 3 layers"
    assert any(HOSTILE in command for command in commands)


def test_a_computational_network_with_its_gradients(tmp_path: Path) -> None:
    network = computational_network()
    batch = {"x": cn.sequences([np.ones((3, 5))]), "labels": cn.sequences([np.ones((2, 5)) / 2])}
    path = tmp_path / "cn.html"
    path.write_text(explore(network, batch, title="lstm.cn"))
    steps = [["count", ".box"], ["click", ".box:has-text('V')"], ["text", ".network .details"], ["text", ".facts"]]
    steps += [["click", "#tab-time"], ["focus", ".frame"], ["press", "ArrowRight"], ["text", ".time .said"]]
    steps += [["click", "#tab-program"], ["fill", ".program input", "node:J"], ["texts", ".program .row code"]]
    steps += [["click", "#tab-memory"], ["click", "#tab-profile"], ["texts", ".bars th[scope=row]"]]
    seen = visit(path, steps)
    assert seen.errors == []
    boxes, details, facts, frame, commands, bars = seen.found
    assert boxes == len(network.nodes)
    assert "parameter" in details
    assert "criteria J" in facts
    assert "computed from" in frame
    assert any("J.Propagate" in command for command in commands)
    assert "J" in bars


def test_twenty_thousand_nodes_are_opened_by_parts(tmp_path: Path) -> None:
    path = tmp_path / "long.html"
    path.write_text(explore(long_chain(20_000)))
    steps = [
        ["count", ".box"],
        ["text", ".picture .notice"],
        ["fill", "input[type=search]", "n19998"],
        ["press", "Enter"],
    ]
    seen = visit(
        path, [*steps, ["text", ".network h2"], ["count", ".box"], ["click", "#tab-program"], ["text", ".program"]]
    )
    assert seen.errors == []
    boxes, notice, chosen, boxes_after, program = seen.found
    assert boxes <= 30
    assert "of 20,002 layers" in notice
    assert chosen == "n19998"
    assert boxes_after <= 30
    assert "nnet3 explore" in program


def test_it_is_served(page: Path) -> None:
    with PageServer(page.read_text) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        seen = visit(server.url, [["text", "h1"]])
        server.shutdown()
        thread.join()
    assert (seen.errors, seen.found) == ([], ["lstm.xconfig"])
    assert {request.removeprefix(server.url) for request in seen.requests} <= {""}
