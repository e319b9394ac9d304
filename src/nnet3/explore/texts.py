"""NumberedTexts by number, each once: programs before and after a pass have most lines in common."""

from __future__ import annotations


class NumberedTexts:
    """Gives each text a number; `all` is the list of them."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Returns the number of a text, which is added unless it is known."""
        number = self._numbers.setdefault(text, len(self.all))
        if number == len(self.all):
            self.all.append(text)
        return number
