"""The README and the docs say what is true: their commands, their Python, their tables."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import MADE_SAMPLES, ROOT, SAMPLES

import ktrace
from ktrace.cli import COMMANDS
from ktrace.input.format import builtin_formats

README = (ROOT / "README.md").read_text("utf-8")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    SAMPLES / "README.md",
]


def test_the_page_of_formats_lists_every_one_and_says_what_it_does() -> None:
    page = (ROOT / "docs/formats.md").read_text("utf-8")
    listed = re.findall(r"^\| \[([\w-]+)\]\((formats/[\w-]+\.md)\) \| (yes)? ?\| (yes)? ?\|", page, re.M)
    formats = [fmt for fmt in builtin_formats() if not fmt.closed]
    assert [(name, bool(reads), bool(writes)) for name, _, reads, writes in listed] == [
        (fmt.name, fmt.reads, fmt.writes) for fmt in formats
    ]


@pytest.mark.parametrize("name", [fmt.name for fmt in builtin_formats() if fmt.name != "closed"])
def test_a_page_of_a_format_says_what_it_was_checked_with(name: str) -> None:
    page = (ROOT / "docs" / "formats" / f"{name}.md").read_text("utf-8")
    checked = re.search(r"^## Checked with\n+(.+?)(?=^## |\Z)", page, re.M | re.S)
    assert checked, f"docs/formats/{name}.md: no section 'Checked with'"
    assert len(checked[1].split()) >= 8, "real files and versions of tools, and what rests on descriptions alone"


def test_no_format_waits_for_its_description() -> None:
    """What `ktrace new-format` leaves to be written."""
    files = [*(ROOT / "docs/formats").glob("*.md"), *(ROOT / "converters").rglob("*.py")]
    assert len(files) > 200
    assert [str(path.relative_to(ROOT)) for path in files if "TODO" in path.read_text("utf-8")] == []


def test_every_command_has_a_page_and_a_row_in_the_readme() -> None:
    assert {path.stem for path in (ROOT / "docs/commands").glob("*.md")} == set(COMMANDS)
    for command in COMMANDS:
        assert f"](docs/commands/{command}.md)" in README


def test_generated_pages_say_what_the_code_says() -> None:
    for path, text in runpy.run_path(str(ROOT / "docs/generate.py"))["pages"]().items():
        assert path.read_text("utf-8") == text, f"{path}: run python docs/generate.py"


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


def test_the_python_of_the_docs_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs/python.md").read_text("utf-8")
    script = "".join(re.findall(r"```python\n(.*?)```", page, re.S)).replace("samples/", f"{SAMPLES}/")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        *("run.perfetto", "kernels.csv", "run.parquet", "loop.html", "loop.key.json")
    }
    lines = done.stdout.splitlines()
    assert lines[0].startswith("mlc ")
    assert next(line for line in lines if line.startswith("1.0 ")).endswith(" []"), "the file isn't valid"
    assert lines[-2].endswith("README.md"), "the error doesn't name the file"


def test_the_page_on_python_has_every_public_name() -> None:
    page = (ROOT / "docs/python.md").read_text("utf-8")
    of_a_trace = [name for name in vars(ktrace.Trace) if not name.startswith("_")]
    assert of_a_trace
    assert [name for name in (*ktrace.__all__, *of_a_trace) if not re.search(rf"\b{name}\b", page)] == []


def test_the_index_of_the_docs_has_every_page() -> None:
    folder = ROOT / "docs"
    linked = set(re.findall(r"\]\(([^)#]+)\)", (folder / "README.md").read_text("utf-8")))
    pages = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")} - {"README.md"}
    assert len(pages) > 20
    assert pages <= linked


def test_the_modules_that_the_design_names_are_there() -> None:
    page = (ROOT / "docs/design.md").read_text("utf-8")
    named = re.findall(r"`((?:ktrace|converters|tests|docs|proto|schema)/[\w./*]*)`", page)
    assert len(named) > 10
    assert [name for name in named if not list(ROOT.glob(name))] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/design.md"])
def test_the_map_of_the_house_has_every_folder(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    folders = sorted(
        path.parent.name for path in (ROOT / "ktrace").glob("*/__init__.py") if not path.parent.is_symlink()
    )
    assert {"cli", "stages", "analysis"} <= set(folders)
    assert [name for name in folders if not re.search(rf"\b{name}/", text)] == []


#: The packages of the core: its packages, and those of the stages and of the analysis.
CORE_PACKAGES = sorted(
    str(path.parent.relative_to(ROOT / "ktrace"))
    for pattern in ("*/__init__.py", "stages/*/__init__.py", "analysis/*/__init__.py", "analysis/*/*/__init__.py")
    for path in (ROOT / "ktrace").glob(pattern)
    if not path.parent.is_symlink()
)


@pytest.mark.parametrize("folder", CORE_PACKAGES)
def test_the_maps_of_folders_name_their_modules(folder: str) -> None:
    package = ROOT / "ktrace" / folder
    tree = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
    modules = {path.stem for path in package.glob("*.py")} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }
    assert [name for name in sorted(modules - {"__init__"}) if not re.search(rf"\b{name}\b", tree)] == []


#: Packages whose docstring lists their modules, each at the start of a line.
MAPPED = [
    path.parent
    for top in ("ktrace", "converters")
    for path in sorted((ROOT / top).rglob("__init__.py"))
    if "converters" not in path.relative_to(ROOT / top).parts
    and any(
        re.search(rf"^{one.stem} {{2,}}", path.read_text("utf-8"), re.MULTILINE) for one in path.parent.glob("*.py")
    )
]

SHARED = ROOT / "ktrace/kit"
SHARED_FOLDERS = sorted(path.parent for path in SHARED.rglob("__init__.py"))


@pytest.mark.parametrize("folder", SHARED_FOLDERS, ids=lambda path: path.name)
def test_the_maps_of_shared_code_name_all_modules(folder: Path) -> None:
    text = (folder / "__init__.py").read_text("utf-8")
    modules = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert len(modules) > 1
    assert [name for name in sorted(modules - {"__init__"}) if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("folder", MAPPED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_maps_name_only_modules_that_exist(folder: Path) -> None:
    tree = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    named = re.findall(r"^([a-z_]+)/? {2,}(?=[a-zA-Z`A-Z])", tree, re.MULTILINE)
    assert [name for name in named if not ((folder / f"{name}.py").exists() or (folder / name).is_dir())] == []


def test_the_csv_shown_begins_as_a_written_one(tmp_path: Path) -> None:
    ktrace.convert(SAMPLES / "jsonl/all-records.jsonl", tmp_path / "run.csv")
    heads = (tmp_path / "run.csv").read_text("utf-8").splitlines()[0]
    shown = re.search(r"```\n(record.*?),\.\.\.", (ROOT / "docs/formats/csv.md").read_text("utf-8"))
    assert shown
    assert heads.startswith(shown.group(1) + ",")


def test_the_trace_shown_in_the_readme_is_that_of_the_sample() -> None:
    block = re.search(r"```\n(\{\"ph\".*?)```", README, re.S)
    assert block
    lines = (SAMPLES / "kineto/one-step-of-training.pt.trace.json").read_text("utf-8").splitlines()
    shown = [".*".join(map(re.escape, line.split("…"))) for line in block.group(1).splitlines()]
    assert len(shown) > 2
    assert [line for line in shown if not any(re.search(line, event) for event in lines)] == []


def test_the_reader_shown_in_contributing_is_that_of_the_format() -> None:
    def without_docstring(text: str) -> str:
        return re.sub(r'^ +"""[^"]*"""\n', "", text, flags=re.M)

    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    shown = re.search(r"```python\n(def read\(.*?)```", contributing, re.S)
    assert shown
    assert shown.group(1) in without_docstring((ROOT / "converters/table.py").read_text("utf-8"))
    declared = re.search(r"```python\n(FORMAT = .*?)```", contributing, re.S)
    assert declared
    assert declared.group(1) in (ROOT / "converters/table.py").read_text("utf-8")


def test_every_sample_has_a_row_in_the_table() -> None:
    table = (SAMPLES / "README.md").read_text("utf-8")
    samples = [str(path.relative_to(SAMPLES)) for path in MADE_SAMPLES if path.suffix != ".toml"]
    assert samples
    assert [name for name in samples if f"`{name}`" not in table] == []


def test_a_kernel_goes_through_the_files_that_the_design_names() -> None:
    """Each is opened on the way of a kernel of Kineto: its functions are called, its C is compiled in."""
    page = (ROOT / "docs/design.md").read_text("utf-8").split("is in eleven files")[1].split("## ")[0]
    files = re.findall(r"^\| \w* ?\| `([\w/.]+)` \|", page, re.MULTILINE)
    assert len(files) == 11
    code = (
        "import sys, threading, ktrace\n"
        "seen = set()\n"
        "def look(frame, event, arg): seen.add(frame.f_code.co_filename)\n"
        "threading.setprofile(look); sys.setprofile(look)\n"
        f"ktrace.convert({str(SAMPLES / 'kineto/one-step-of-training.pt.trace.json')!r}, sys.argv[1], jobs=1)\n"
        "sys.setprofile(None)\n"
        "print(*seen, sep='\\n')\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code, f"{folder}/out.perfetto"], capture_output=True, text=True, check=True, cwd=ROOT
        )
    called = {str(Path(line).resolve()) for line in done.stdout.splitlines()}
    assert [name for name in files if name.endswith(".py") and str((ROOT / name).resolve()) not in called] == []
    assert [name for name in files if not (ROOT / name).is_file()] == []
