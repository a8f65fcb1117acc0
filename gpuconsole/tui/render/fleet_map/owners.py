"""A letter and a colour for every user, given once and kept for as long as the console is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from string import ascii_lowercase, ascii_uppercase, digits

NO_USER = -1
_LETTERS = ascii_lowercase + ascii_uppercase + digits
_REST = "#"
"""For users beyond the letters that there are."""


class Owners:
    """Users by their slot, in the order in which they were seen first."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {"": NO_USER}
        self._letters: list[str] = []

    def slot(self, user: str) -> int:
        """Return the number of a user; `NO_USER` for ""."""
        slot = self._slots.get(user)
        if slot is None:
            slot = self._slots[user] = len(self._letters)
            self._letters.append(self._free_letter(user))
        return slot

    def letter(self, slot: int) -> str:
        """Return the letter of a slot."""
        return self._letters[slot]

    def most(self, users: Iterable[str]) -> int:
        """Return the slot of the user who is named most often; `NO_USER` if none is."""
        counts = Counter(user for user in users if user)
        return self.slot(counts.most_common(1)[0][0]) if counts else NO_USER

    def _free_letter(self, user: str) -> str:
        """Take a letter of the name in small or capital, else any that is left."""
        taken = set(self._letters)
        own = [letter for letter in user if letter.isascii() and letter.isalnum()]
        wanted = [*own, *(letter.swapcase() for letter in own), *_LETTERS]
        return next((letter for letter in wanted if letter not in taken), _REST)
