"""The commands that the docs show: where they are, what they are, and what is shown as their output."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from ktrace.cli import COMMANDS

_FENCED = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.M | re.S)
_INDENTED = re.compile(r"(?:^    [^\n]*\n)+", re.M)
#: A word that the synopsis of a command has, and no example.
_SYNOPSIS = re.compile(r"\[-|\bIN\b|\bOUT\b|\bFILE\b|\bNAME --|\bA \[B\]|\bSQL\b")
_KTRACE = re.compile(rf"(?:\w+=\S+ )*ktrace (?:{'|'.join(COMMANDS)}|-)")
#: Languages of a block that is nothing but commands.
SHELL = {"sh", "bash", "console", "shell"}


@dataclass
class Command:
    """A command line of a page, and the output that the page shows, if any."""

    page: str
    line: int
    text: str
    shown: list[str] = field(default_factory=list)
    whole: bool = False  # of a block in which every line must be a command

    @property
    def parts(self) -> list[str]:
        """The commands of a line that runs several."""
        return re.split(r"\s+&&\s+", _without_comment(self.text).replace("\\\n", " "))


@dataclass
class Synopsis:
    page: str
    text: str


def found(page: str, markdown: str) -> Iterator[Command | Synopsis]:
    """Yields what the blocks of a page have, in the order of the page."""
    for language, line, body in _blocks(markdown):
        lines = body.split("\n")
        asked = any(text.startswith("$ ") for text in lines)
        if language not in SHELL and (language or not any(map(_is_command, lines))):
            continue
        if not asked and _SYNOPSIS.search(_without_comment(lines[0])):
            yield Synopsis(page, body)
            continue
        yield from _asked(page, line, lines) if asked else _plain(page, line, lines, language in SHELL)


def _blocks(markdown: str) -> Iterator[tuple[str, int, str]]:
    blocks = []
    for block in _FENCED.finditer(markdown):
        indent = len(block["indent"])
        body = "\n".join(line[indent:] for line in block["body"].rstrip("\n").split("\n"))
        blocks.append((block.start(), block["language"], body))
    without = _FENCED.sub(lambda block: re.sub(r"[^\n]", "", block[0]), markdown)
    blocks += [
        (markdown.find(block[0]), "", "\n".join(line[4:] for line in block[0].rstrip("\n").split("\n")))
        for block in _INDENTED.finditer(without)
    ]
    for start, language, body in sorted(blocks):
        yield language, markdown.count("\n", 0, start) + 2, body


def _is_command(line: str) -> bool:
    return bool(_KTRACE.match(line.removeprefix("$ ")))


def _asked(page: str, line: int, lines: list[str]) -> Iterator[Command]:
    """Commands after `$ `, each with its output below it."""
    command: Command | None = None
    for number, text in enumerate(lines):
        if text.startswith("$ "):
            if command:
                yield command
            command = Command(page, line + number, text[2:])
        elif command and _open(command.text):
            command.text += "\n" + text
        elif command:
            command.shown.append(text)
    if command:
        yield command


def _plain(page: str, line: int, lines: list[str], whole: bool) -> Iterator[Command]:
    """Commands, a line each or several where a quote or a backslash goes on; other lines only of shell blocks."""
    number = 0
    while number < len(lines):
        text, first = lines[number], number
        while _open(text) and number + 1 < len(lines):
            number += 1
            text += "\n" + lines[number]
        number += 1
        if text.strip() and not text.startswith("#") and (whole or "ktrace " in text):
            yield Command(page, line + first, text, whole=whole)


def _open(text: str) -> bool:
    """Whether the command goes on in the next line."""
    if text.endswith(("\\", "&&", "|")):
        return True
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def _without_comment(text: str) -> str:
    return re.sub(r"\s+# .*$", "", text, flags=re.M)


def same(shown: list[str], printed: str) -> bool:
    """Whether the output is what the page shows; a line `...` elides any number of lines, `...` in a line any text."""
    while shown and not shown[-1].strip():
        shown = shown[:-1]
    pattern = ""
    for line in shown:
        if line.strip() in {"...", "…"}:
            pattern += r"(?:.*\n)*?"
        else:
            pattern += r".*?".join(map(re.escape, re.split(r"\.\.\.|…", line.rstrip()))) + r"[ \t]*\n"
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None
