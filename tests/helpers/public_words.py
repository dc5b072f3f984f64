"""Makes schema/public-words.json: the words that `ktrace share --redact` leaves as they are.

They are the words of names and keys in samples of at least two folders, and those of files of ktrace.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

import ktrace
from ktrace.model.json_text import decoded, load_json

ROOT = Path(__file__).parents[2]
ABOUT = "Words of vendors, frameworks and profilers, which are public: ktrace/stages/redact.py leaves them as they are."


#: Files with words of ktrace's own and of vendors: rules, devices, fields and facts, formats, what is reported; and the
#: folders of what looks at names.
LOOKING = ("ktrace/naming", "ktrace/analysis", "ktrace/stages")
WORDED = (
    "schema/operations.json",
    "schema/peaks.json",
    "schema/ktrace-1.schema.json",
    "converters/listed.py",
    "ktrace/report.py",
)

#: vLLM's sums of the lengths of sequences: execute_context_1(sq8sk8sqsq64sqsk64)_generation_0(sq0sk0sqsq0sqsk0).
SUMS = "sq#sk#sqsq#sqsk#"


def words_of_files() -> set[str]:
    """The words of these files of three letters and more, whole and in their parts, and names with digits (a100)."""
    texts = [(ROOT / name).read_text("utf-8") for name in WORDED] + [*_patterns()]
    text = re.sub(r"\\+.", " ", " ".join(texts))
    runs = set(re.findall(r"[A-Za-z0-9]{3,}", text))
    words = {part for run in runs if run.isalpha() for part in (run, *_parts(run))}
    return {word.lower() for word in words} | {
        run.lower() for run in runs if re.fullmatch(r"[A-Za-z]{1,4}\d{1,4}[A-Za-z]{0,2}", run)
    }


def _patterns() -> Iterator[str]:
    """The texts of regular expressions that look at names, and short texts: keys of arguments, names of calls."""
    for path in (path for folder in LOOKING for path in sorted((ROOT / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_pattern = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "compile"
            for one in ast.walk(node) if is_pattern else (node,):
                if (
                    isinstance(one, ast.Constant)
                    and isinstance(one.value, str)
                    and (is_pattern or len(one.value) <= 24)
                ):
                    yield one.value


def _parts(run: str) -> list[str]:
    return [part for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", run) if len(part) > 2]


def words_of_samples() -> set[str]:
    """Those of names and keys in samples of at least two folders, but what may be digits of a hexadecimal number."""
    folders: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "samples").rglob("*")):
        if not path.is_file() or path.suffix in (".md", ".tsv"):
            continue
        for text in _texts(path):
            for run in re.findall(r"[A-Za-z0-9]+", text):
                if not run.isdigit():
                    folders[re.sub(r"\d+", "#", run).lower()].add(str(path.parent))
    return {
        word
        for word, of in folders.items()
        if (len(of) > 1 and not re.fullmatch(r"(#x)?[a-f#]*#[a-f#]*|#x#[a-f].*", word)) or word == "#x#"
    }


def _texts(path: Path) -> set[str]:
    texts: set[str] = set()
    try:
        with ktrace.open_batches(path, jobs=1) as batches:
            for batch in batches:
                texts |= {name.removeprefix("args.") for name in batch.typed_args()}
                if batch.record in ("events", "summaries"):
                    texts |= set(filter(None, decoded(batch.column("name")).to_pylist()))
                if batch.has("args"):
                    texts |= {
                        key
                        for text in set(decoded(batch.column("args")).to_pylist())
                        if text
                        for key in load_json(text)
                    }
    except ktrace.KtraceError:
        return set()
    return texts


if __name__ == "__main__":
    words = sorted({*words_of_samples(), *words_of_files(), SUMS})
    out = ROOT / "schema/public-words.json"
    lines = "\n".join(wrap(", ".join(map(json.dumps, words)), 118, initial_indent="  ", subsequent_indent="  "))
    out.write_text(f'{{\n "about": {json.dumps(ABOUT)},\n "words": [\n{lines}\n ]\n}}\n', "utf-8")
