"""The words of the project: the glossary defines them once, and what it has better words for isn't written."""

from __future__ import annotations

import ast
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
    r"storeys?": "layer",
    r"faults of the world": "failure modes",
    r"blazing(?:ly)?|seamless(?:ly)?|simply|just works": "the figure, or nothing",
    r"whitelist(?:s|ed)?|blacklist(?:s|ed)?": "allowed, refused",
}

#: What people read says it in the field's words: texts of the program, other than docstrings.
SHOWN = {
    r"the heaviest (?:kernel|operation) is": "the top kernel is",
    r"queued no work|queues too little": "launch-bound: the CPU was late to launch",
    r"overhead between launches": "launch latency",
    r"what the host did meanwhile": "CPU activity during gaps",
    r"events of device work": "device activities",
    r"heaviest device work": "top device work",
    r"^heaviest (?:kernels|operation|calls|functions)$": "top kernels, ...",
    r"from launch to begin": "from launch to start",
    r"without compute at the same time": "exposed",
    r"use of (?:a |the )?devices?": "device utilisation",
    r"how near to the machine|how near kernels are": "Roofline, Speed of Light",
    r"launches too late": "late launches",
    r"was longest in": "top CPU activity",
    r"heaviest kernels? (?:is|are)": "the top kernels are",
    r"waits of work after": "queueing after the launch",
    r"what was queued, and waited": "blocked work",
    r"remedy: ": "hint: ",
    r"calls of (?:CUDA|HIP)": "CUDA calls",
    r"lifetimes? of (?:a )?warps?": "warp lifetimes",
    r"hasn't an?\b": "doesn't have a",
    r"another amount of": "a different amount of",
    r"the part of the time\b": "the time range",
    r"(?:into|in) one clock": "aligned",
    r"within each other": "overlap, or nested",
    r"doesn't answer:": "doesn't respond:",
    r"\b(?:its|a|no) begin\b": "start",
    r"\bmends?\b": "fix, or repair",
    r"that (?:are|is) no (?:table|line)": "that isn't a",
    r"\bread so\b": "read that way",
    r"time of (?:the )?devices?\b": "device time",
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


def texts_of(name: str) -> list[tuple[int, str]]:
    """The texts of a module with their lines, without docstrings and what a lone expression is."""
    tree = ast.parse((ROOT / name).read_text("utf-8"))
    lone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in lone]
    return [(node.lineno, node.value) for node in found if isinstance(node.value, str)]


def test_what_people_read_has_the_words_of_the_field() -> None:
    files = [name for name in FILES if name.startswith(("ktrace/", "converters/")) and name.endswith(".py")]
    assert len(files) > 300
    wrong = [
        f"{name}:{line}: {text.strip()[:100]} (write {better})"
        for name in files
        if not (ROOT / name).is_symlink()
        for line, text in texts_of(name)
        for pattern, better in SHOWN.items()
        if re.search(pattern, text, re.IGNORECASE)
    ]
    assert not wrong, "\n".join(wrong)


#: Names that tell nothing of what they hold; `Trace.filter(wanted)` is public.
VAGUE = {"found", "known", "own", "mine", "wanted", "told", "asked"}
NAMED = re.compile(r"converters/|ktrace/(?!converters/|trace/trace\.py)")


def test_a_local_says_what_it_holds() -> None:
    files = [name for name in FILES if NAMED.match(name) and name.endswith(".py")]
    assert len(files) > 600
    vague = [
        f"{name}:{node.lineno}: {word}"
        for name in files
        for function in ast.walk(ast.parse((ROOT / name).read_text("utf-8")))
        if isinstance(function, (ast.FunctionDef, ast.Lambda, ast.comprehension))
        for node in ast.walk(function)
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        if (word := node.arg if isinstance(node, ast.arg) else node.id) in VAGUE
    ]
    assert not vague, "\n".join(vague)


def test_the_glossary_defines_a_word_once() -> None:
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", (ROOT / "docs/glossary.md").read_text("utf-8"), re.MULTILINE)
    words = [word.strip() for row in rows for word in row.split(",") if word.strip() not in ("word", "---")]
    assert len(words) > 50
    assert sorted(words) == sorted(set(words))
