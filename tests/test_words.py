"""The words of the project: the glossary defines them once, and what it has better words for isn't written."""

from __future__ import annotations

import re
import subprocess

import pytest
from conftest import ROOT

#: What isn't written -> what is. Whole words, in code, messages, help, docs and tests.
BANNED = {
    r"rooms?": "package or format; disk space; capacity; fit",
    r"the begin": "the start",
    r"begins? and ends? of": "start and end",
    r"hasn't(?=[.,;:)]|$)": "doesn't have",
    r"belongs? to nobody": "nothing owns",
    r"anybody's|nobody's": "who or what it is",
    r"came into one clock": "were aligned",
    r"because it its": "because its",
    r"(?-i:DESIGN|MODEL|FORMATS|PERFETTO|NCU_REP)\.md": "a page of docs/",
    r"dawdles?|dawdling": "is late",
    r"utili[sz]e[sd]?|leverage[sd]?": "use",
    r"in order to": "to",
    r"blazing(?:ly)?|seamless(?:ly)?|simply|just works": "the figure, or nothing",
    r"whitelist(?:s|ed)?|blacklist(?:s|ed)?": "allowed, refused",
}

#: Written for a reason: of others, or in another sense.
KEPT = {"tests/test_words.py"}

FILES = [
    name
    for name in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    if name.endswith((".py", ".md", ".c", ".h")) and not name.startswith("samples/") and name not in KEPT
]


def test_there_are_files_to_look_at() -> None:
    assert len(FILES) > 900


@pytest.mark.parametrize("pattern", BANNED)
def test_a_word_that_the_glossary_has_a_better_one_for_is_not_written(pattern: str) -> None:
    find = re.compile(rf"(?<![a-z'\"/.-])(?:{pattern})(?![a-z-])", re.IGNORECASE)
    found = []
    for name in FILES:
        if (ROOT / name).is_symlink():
            continue
        for number, line in enumerate((ROOT / name).read_text("utf-8", errors="replace").splitlines(), start=1):
            if find.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert not found, f"write {BANNED[pattern]}:\n" + "\n".join(found)


def test_the_glossary_defines_a_word_once() -> None:
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", (ROOT / "docs/glossary.md").read_text("utf-8"), re.MULTILINE)
    words = [word.strip() for row in rows for word in row.split(",") if word.strip() not in ("word", "---")]
    assert len(words) > 50
    assert sorted(words) == sorted(set(words))
