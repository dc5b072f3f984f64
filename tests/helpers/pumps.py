"""Texts that make a regular expression try again and again, made from the pattern itself."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

try:
    from re import _constants as op  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as op  # type: ignore[no-redef]
    import sre_parse as parser  # type: ignore[no-redef]

_ALPHABET = "".join(map(chr, range(1, 128))) + "\0éµ°│\u00a0\u0663Δ"
_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}
_REPEATS = tuple(getattr(op, name) for name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") if hasattr(op, name))
_ATOMS = (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY)


@dataclass(frozen=True)
class Pump:
    """`prefix`, then `piece` again and again, then `end`."""

    prefix: str
    piece: str
    end: str

    def text(self, length: int) -> str:
        return self.prefix + self.piece * max(1, length // len(self.piece)) + self.end


def pumps(pattern: re.Pattern[Any]) -> list[Pump]:
    """The hostile texts for one pattern: runs of each kind of character that it tells apart, after its beginnings;
    its own pieces repeated; and two kinds by turns."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    kinds = _kinds(tree, pattern.flags)
    if isinstance(pattern.pattern, bytes):
        kinds = [kind for kind in kinds if ord(kind) < 256]
    before, pieces = [""], []
    for prefix, body in _repeats(tree, "", kinds):
        before.append(prefix)
        pieces += body
    whole = _sample(tree, kinds, 1)
    pieces += [whole, whole[:-1], *before]
    pieces = [piece for piece in dict.fromkeys(pieces) if len(piece) > 1]
    before, ends = [*dict.fromkeys(before)], ["", "\n", "\0"]
    found = [
        Pump(prefix, kind, end) for prefix in before for kind in kinds for end in dict.fromkeys([*ends, *kinds[:3]])
    ]
    found += [Pump(prefix, piece, end) for prefix in before[:4] for piece in pieces for end in ends]
    found += [
        Pump(prefix, one + two, end)
        for prefix in before[:1]
        for one, two in product(kinds[:7], repeat=2)
        for end in ends[::2]
    ]
    found += [Pump(prefix, " " + piece, end) for prefix in before[:2] for piece in pieces for end in ends]
    return [*dict.fromkeys(found)]


def _kinds(tree: Any, flags: int) -> list[str]:
    """One character for each set that all parts of the pattern treat alike."""
    atoms = [*_atoms(tree)]
    kinds: dict[tuple[bool, ...], str] = {}
    own = "".join(map(chr, {code for atom in atoms for code in _codes(atom)}))
    for char in sorted(_ALPHABET + own, key=lambda char: (char not in " \t\n0a\"'\\|[](){},", not char.isprintable())):
        signature = (char.isalnum() or char == "_", *(_accepts(atom, char, flags) for atom in atoms))
        kinds.setdefault(signature, char)
    return [*kinds.values()]


def _atoms(tree: Any) -> Iterator[Any]:
    for code, argument in tree:
        if code in _ATOMS:
            yield (code, argument)
        for part in _inner(code, argument):
            yield from _atoms(part)


def _codes(atom: tuple[Any, Any]) -> Iterator[int]:
    """The characters that a part of the pattern names."""
    code, argument = atom
    if code in (op.LITERAL, op.NOT_LITERAL):
        yield argument
    elif code is op.RANGE:
        yield argument[0]
    elif code is op.IN:
        for one in argument:
            yield from _codes(one)


def _inner(code: Any, argument: Any) -> list[Any]:
    if code in _REPEATS:
        return [argument[2]]
    if code is op.SUBPATTERN:
        return [argument[3]]
    if code is op.BRANCH:
        return [*argument[1]]
    if code in (op.ASSERT, op.ASSERT_NOT):
        return [argument[1]]
    if code is op.GROUPREF_EXISTS:
        return [part for part in argument[1:] if part]
    return [argument] if code is getattr(op, "ATOMIC_GROUP", None) else []


def _accepts(atom: tuple[Any, Any], char: str, flags: int) -> bool:
    code, argument = atom
    if code is op.ANY:
        return char != "\n" or bool(flags & re.DOTALL)
    cases = {char, char.lower(), char.upper()} if flags & re.IGNORECASE else {char}
    if code is op.LITERAL:
        return any(ord(case) == argument for case in cases if len(case) == 1)
    if code is op.NOT_LITERAL:
        return ord(char) != argument
    negated = argument[0][0] is op.NEGATE
    return negated != any(_in_set(one, case, flags) for one in argument for case in cases if len(case) == 1)


def _in_set(one: tuple[Any, Any], char: str, flags: int) -> bool:
    code, argument = one
    if code is op.LITERAL:
        return ord(char) == argument
    if code is op.RANGE:
        return bool(argument[0] <= ord(char) <= argument[1])
    if code is op.CATEGORY:
        return re.match(_CATEGORIES[argument], char, flags & re.ASCII if flags & re.UNICODE else re.ASCII) is not None
    return False


def _sample(tree: Any, kinds: list[str], times: int) -> str:
    """A short text that the pattern accepts, lookarounds aside; parts that may be repeated stand `times` times."""
    return "".join(_sample_of(code, argument, kinds, times) for code, argument in tree)


def _sample_of(code: Any, argument: Any, kinds: list[str], times: int) -> str:
    if code in _ATOMS:
        return (
            chr(argument)
            if code is op.LITERAL
            else next((kind for kind in kinds if _accepts((code, argument), kind, 0)), "")
        )
    if code in _REPEATS:
        least, most, body = argument
        return _sample(body, kinds, times) * max(least, min(times, int(most)))
    if code is op.BRANCH:
        return _sample(argument[1][0], kinds, times)
    if code is op.ASSERT and argument[0] > 0:
        return ""
    return "".join(_sample(part, kinds, times) for part in _inner(code, argument)) if code is not op.ASSERT_NOT else ""


def _repeats(tree: Any, prefix: str, kinds: list[str]) -> Iterator[tuple[str, list[str]]]:
    """For each part that may be repeated: what leads to it, and what it may repeat."""
    for code, argument in tree:
        if code in _REPEATS and argument[1] > 8:
            body = argument[2]
            yield prefix, [_sample(body, kinds, times) for times in (0, 1, 2)]
        for part in _inner(code, argument):
            yield from _repeats(part, prefix, kinds)
        prefix += _sample_of(code, argument, kinds, 0) or _sample_of(code, argument, kinds, 1)


def cost(pattern: re.Pattern[Any], method: str, text: str | bytes) -> float:
    """Seconds of CPU time of one call over `text`."""
    begin = time.thread_time()
    if method == "finditer":
        deque(pattern.finditer(text), 0)
    else:
        getattr(pattern, method)(text)
    return time.thread_time() - begin
