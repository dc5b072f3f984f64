"""The README and the docs say what is true: their commands, their Python, their tables."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, SAMPLES

from ktrace.cli import COMMANDS
from ktrace.format import builtin_formats

README = (ROOT / "README.md").read_text("utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")), SAMPLES / "README.md"]


def test_the_readme_lists_every_format_and_says_what_it_does() -> None:
    listed = re.findall(r"^\| \[([\w-]+)\]\((docs/formats/[\w-]+\.md)\) \| (yes)? ?\| (yes)? ?\|", README, re.M)
    formats = [fmt for fmt in builtin_formats() if not fmt.closed]
    assert [(name, bool(reads), bool(writes)) for name, _, reads, writes in listed] == [
        (fmt.name, fmt.reads, fmt.writes) for fmt in formats
    ]


def test_every_command_has_a_page_and_a_row_in_the_readme() -> None:
    assert {path.stem for path in (ROOT / "docs/commands").glob("*.md")} == set(COMMANDS)
    for command in COMMANDS:
        assert f"](docs/commands/{command}.md)" in README


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", README, re.S)
    assert code
    assert len([line for line in code.group(1).splitlines() if line.strip()]) <= 11
    script = code.group(1).replace("samples/", f"{SAMPLES}/")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("True")
    assert {path.name for path in tmp_path.iterdir()} == {"kernels.parquet", "kernels.perfetto"}


def test_the_log_shown_in_the_readme_is_that_of_the_sample() -> None:
    shown = re.search(r"```\n(\[browser.*?)```", README, re.S)
    assert shown
    assert shown.group(1) in (SAMPLES / "doppler/prefill-and-three-decodes.log").read_text("utf-8")


def test_the_reader_shown_in_contributing_is_that_of_the_room() -> None:
    def without_docstring(text: str) -> str:
        return re.sub(r'^ +"""[^"]*"""\n', "", text, flags=re.M)

    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    shown = re.search(r"```python\n(def read\(.*?)```", contributing, re.S)
    assert shown
    assert shown.group(1) in without_docstring((ROOT / "converters/table/reader.py").read_text("utf-8"))
    line = re.search(r'^Format\("table".*$', contributing, re.M)
    assert line
    assert line.group() in (ROOT / "converters/formats.py").read_text("utf-8")


def test_every_sample_has_a_row_in_the_table() -> None:
    table = (SAMPLES / "README.md").read_text("utf-8")
    samples = [str(path.relative_to(SAMPLES)) for path in sorted(SAMPLES.glob("*/*"))]
    assert samples
    assert [name for name in samples if f"`{name}`" not in table] == []
