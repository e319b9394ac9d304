"""The page of `nnet3 serve` in a headless Chromium that hears a recording as its microphone; docs/figures/serving.png.

Run it as `python -m tools.page_of_server MODEL-DIR recording.wav docs/figures/serving.png`.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from nnet3.asr import Model
from nnet3.options import ServeOptions
from nnet3.serve import Server

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0"),
    *("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream", "--window-size=900,640"),
    "--autoplay-policy=no-user-gesture-required",
)
_STARTED = "DevToolsActivePort"
_PATIENCE = 120.0  # seconds
_SO_FAR = "[...document.querySelectorAll('#transcript > p > span')].map((each) => each.textContent).join(' ')"
_WORDS = "[...document.querySelectorAll('.final > span')].map((each) => each.textContent)"


def browser() -> str:
    """Returns the path of a browser, "" if there is none."""
    return next(filter(None, map(shutil.which, _BROWSERS)), "")


class Page:
    """A page in a browser of its own, which hears a WAV file, over and over, where it asks for a microphone."""

    def __init__(self, address: str, recording: Path):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        microphone = f"--use-file-for-fake-audio-capture={recording}"
        command = [browser(), *_OPTIONS, f"--user-data-dir={self._folder.name}", microphone, address]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._numbers, self._open = count(1), ExitStack()
        try:
            self._socket = self._connect()
        except BaseException:
            self._end()
            raise

    def _connect(self) -> ClientConnection:
        started = Path(self._folder.name) / _STARTED
        self._wait(lambda: started.exists() and bool(started.read_text().strip()), "the browser does not start")
        port = started.read_text().split()[0]
        pages: list[dict[str, str]] = []

        def is_there() -> bool:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=_PATIENCE) as response:
                pages[:] = [each for each in json.load(response) if each["type"] == "page"]
            return bool(pages)

        self._wait(is_there, "the browser shows no page")
        return self._open.enter_context(connect(pages[0]["webSocketDebuggerUrl"], max_size=None))

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def _end(self) -> None:
        self._open.close()
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the browser's debugging protocol."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(_PATIENCE))
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def evaluate(self, expression: str) -> Any:
        """Returns the value of an expression in the page."""
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return result["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Waits until an expression is true; returns its value. Raises RuntimeError with the page's state otherwise."""
        value: list[Any] = [None]

        def is_true() -> bool:
            value[0] = self.evaluate(expression)
            return bool(value[0])

        self._wait(is_true, f"{expression} does not become true")
        return value[0]

    def _wait(self, is_so: Any, otherwise: str) -> None:
        end = time.monotonic() + _PATIENCE
        while not is_so():
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError(otherwise)
            time.sleep(0.1)

    def screenshot(self) -> bytes:
        """Returns a picture of the page, PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])


def listen(page: Page, words: int = 1) -> list[str]:
    """Presses the button, waits for so many words, presses it again; returns what the page shows in the end."""
    page.wait_for("document.readyState === 'complete' && !!record.onclick")
    page.evaluate("record.click()")
    page.wait_for("label.textContent === 'Stop'")
    page.wait_for(f"{_SO_FAR}.match(/\\S+/g)?.length >= {words}")
    page.evaluate("record.click()")
    page.wait_for("state.textContent === 'ready'")
    return [str(text) for text in page.evaluate(_WORDS)]


def main() -> None:
    folder, recording, picture = sys.argv[1:]
    with Server(Model(folder), ServeOptions(port=0)) as server:
        host, port = server.address
        with Page(f"http://{host}:{port}/", Path(recording).absolute()) as page:
            print("\n".join(listen(page, words=24)))
            Path(picture).write_bytes(page.screenshot())


if __name__ == "__main__":
    main()
