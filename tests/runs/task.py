"""A small task for training runs, and runs of it in this process."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from nnet3.examples import EXAMPLES, ExampleReader, example_writer
from nnet3.training.runs.data_kinds import KINDS
from nnet3.training.runs.display import Display
from nnet3.training.runs.events import read_events
from nnet3.training.runs.settings_text import read_settings_text
from nnet3.training.runs.train_model import train_model
from tests.effort import EFFORT
from tools.kill_training_data import write_examples


class Task:
    """A folder with examples, a network and settings; the run's folder is `plain`."""

    def __init__(self, folder: Path, written: Path):
        """`written`: a folder that `write_task` has filled, of which `folder` becomes a copy."""
        self.folder, self.write_examples = shutil.copytree(written, folder, dirs_exist_ok=True), write_examples
        self.all_settings = {path.stem: path for path in folder.glob("*.toml")}
        for path in self.all_settings.values():
            text = path.read_text().replace(str(written), str(folder))
            path.write_text(text.replace("every = 3", "every = 9") if EFFORT == 1 else text)  # checkpoints
        self.use("plain")

    def use(self, name: str) -> None:
        """Take another one of the settings files; its runs are in a folder of its name."""
        self.settings, self.exp = self.all_settings[name], self.folder / name

    def use_folder(self, name: str) -> None:
        """Where the next run is to be."""
        self.exp = self.folder / name
        self.change(output__folder=f'"{self.exp}"')

    def change(self, **values: object) -> None:
        """Set keys of the settings file, section__key=value as TOML."""
        text = self.settings.read_text()
        for name, value in values.items():
            section, _, key = name.replace("_", "-").partition("--")
            header = f"[{section}]\n"
            text = text if header in text else text + header
            before, _, after = text.partition(header)
            own, bracket, rest = after.partition("\n[")
            own = re.sub(rf"^{key} =.*\n?", "", own + "\n", flags=re.MULTILINE)
            text = f"{before}{header}{key} = {value}\n{own.strip()}\n{bracket.lstrip()}{rest}"
        self.settings.write_text(text)

    def run(self, **options: Any) -> int:
        display = Display(Console(file=io.StringIO()), is_first=False)
        return train_model(KINDS.read(read_settings_text(str(self.settings))), KINDS, display=display, **options)

    def events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in read_events(self.exp) if event["event"] == name]

    @property
    def final(self) -> bytes:
        return (self.exp / "final.raw").read_bytes()

    def spoil(self, archive: str, keys: set[str]) -> None:
        """Put a NaN into the features of these examples."""
        with ExampleReader(f"ark:{self.folder / archive}", EXAMPLES) as reader:
            entries = list(reader)
        with example_writer(f"ark:{self.folder / archive}", EXAMPLES) as writer:
            for key, example in entries:
                matrix = example.ios[0].matrix
                assert isinstance(matrix, np.ndarray)
                if key in keys:
                    matrix[2, 1] = np.nan
                writer.write(key, example)
