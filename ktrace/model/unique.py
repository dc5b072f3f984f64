"""Names that are free."""

from __future__ import annotations

from collections.abc import Callable


def unique_name(name: str, is_taken: Callable[[str], bool], separator: str = "#") -> str:
    """Returns the name, or where it is taken the name with the first free number from 2 on: run, run#2, run#3."""
    number, free = 1, name
    while is_taken(free):
        number += 1
        free = f"{name}{separator}{number}"
    return free
