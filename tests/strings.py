"""Lists every text that a person may meet, those first that are met most often: `python -m tests.strings [--top N]`.

A text is a string with a blank in it, other than docstrings, of the program or of its pages' scripts and templates;
`{}` is what is filled in. How often it is met is counted in what commands print of one sample of each format, and in
their help: in how many outputs its longest fixed piece is. Who reads the list as a native practitioner finds what
sounds foreign where it is seen most; what is banned goes to tests/test_words.py.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]

#: Where texts are written by.
SOURCES = ("ktrace/**/*.py", "converters/**/*.py", "ktrace/page/*.js", "ktrace/page/*.html")

#: The shortest fixed piece that is looked for, in characters.
_SHORTEST = 8

#: A quoted text of a script, and text between the tags of a template.
_QUOTED = re.compile(r"\"([^\"\n]*)\"|'([^'\n]*)'|`([^`]*)`|>([^<>{}\n]+)<")


class Text(NamedTuple):
    """A text and where it is written."""

    place: str
    text: str

    @property
    def piece(self) -> str:
        """Its longest fixed piece, in one line."""
        return max((" ".join(part.split()) for part in self.text.split("{}")), key=len)


def texts() -> Iterator[Text]:
    """All texts with a blank between words, in the order of their files."""
    for pattern in SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            written = of_python(path) if path.suffix == ".py" else of_script(path)
            for line, text in written:
                if re.search(r"[A-Za-z]{2,} [A-Za-z]{2,}", text):
                    yield Text(f"{path.relative_to(ROOT)}:{line}", text)


def of_python(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module but its docstrings, other than those of commands; what an f-string fills in is `{}`."""
    tree = ast.parse(path.read_text("utf-8"))
    lone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (lone | inner):
            yield node.lineno, node.value
        elif isinstance(node, ast.FunctionDef) and node.name == "command" and path.parent.name == "cli":
            yield node.lineno, ast.get_docstring(node) or ""


def of_script(path: Path) -> Iterator[tuple[int, str]]:
    """The quoted texts of a script or template; what is filled in is `{}`."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        for match in _QUOTED.finditer(line):
            yield number, re.sub(r"\$\{[^}]*\}|\{\{[^}]*\}\}", "{}", next(filter(None, match.groups()), ""))


def outputs(samples: list[Path]) -> Iterator[str]:
    """What commands print of these samples, and their help, each in one line."""
    from ktrace.cli import COMMANDS, cli

    asked = [[name, "--help"] for name in COMMANDS]
    with tempfile.TemporaryDirectory() as folder:
        for number, sample in enumerate(samples):
            asked += [["summary", str(sample)], ["summary", "--full", str(sample)], ["info", str(sample)]]
            asked += [["check", str(sample)], ["convert", str(sample), "-o", f"{folder}/{number}.perfetto"]]
            asked += [["summary", str(sample), "-o", f"{folder}/{number}.html"]]
        for words in asked:
            done = CliRunner().invoke(cli, words, catch_exceptions=True)
            error = f"{done.exception}" if done.exception else ""
            page = Path(words[-1]).read_text("utf-8") if words[-1].endswith(".html") and not done.exit_code else ""
            yield " ".join(f"{done.output} {error} {page}".split())


def main() -> None:
    """Prints the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--top", type=int, help="so many texts")
    options = parser.parse_args()
    samples = [
        next(iter(sorted(folder.iterdir()))) for folder in sorted((ROOT / "samples").iterdir()) if folder.is_dir()
    ]
    printed = list(outputs(samples))
    listed = {one.text: one for one in texts()}.values()
    met = [(sum(one.piece in page for page in printed) if len(one.piece) >= _SHORTEST else 0, one) for one in listed]
    for count, one in sorted(met, key=lambda row: (-row[0], row[1].place))[: options.top]:
        print(count, one.place, " ".join(one.text.split()), sep="\t")
    print(f"{len(listed):,} texts, {len(printed):,} outputs", file=sys.stderr)


if __name__ == "__main__":
    main()
