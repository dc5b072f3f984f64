"""Who may import whom (docs/design.md): found by walking the imports, not by running the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import ROOT

HEAVY = ("pyarrow", "pandas", "numpy", "rich", "jsonschema", "jsonschema_rs", "perfetto", "google", "msgspec", "duckdb")
ABOVE_ROOMS = ("ktrace.cli", "ktrace.pipeline.convert", "ktrace.pipeline.read", "ktrace.input.detection")
LIGHT_CORE = {"ktrace.input.format", "ktrace.input.source", "ktrace.errors", "ktrace.input.detection"}


class Import(NamedTuple):
    """An import: where it stands, what it names, whether it runs when the module is imported."""

    file: Path
    line: int
    module: str
    at_start: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: imports {self.module}"


def module_name(file: Path) -> str:
    """The installed name of a source file: converters/mlc/probe.py is ktrace.converters.mlc.probe."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "ktrace" else ("ktrace", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file: Path) -> Iterator[Import]:
    """All imports of a file, those below TYPE_CHECKING left out, relative ones made absolute."""
    tree = ast.parse(file.read_text("utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    local = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for inner in ast.walk(node)
    }
    package = module_name(file).split(".")
    package = package if file.name == "__init__.py" else package[:-1]
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            names = [".".join([*base, node.module or ""]).rstrip(".")]
        for name in names:
            yield Import(file, getattr(node, "lineno", 0), name, id(node) not in local)


def sources(folder: str) -> list[Path]:
    return sorted(file for file in (ROOT / folder).rglob("*.py") if "__pycache__" not in file.parts)


ALL = [file for folder in ("ktrace", "converters") for file in sources(folder) if not file.is_symlink()]
CORE = [
    file for file in ALL if file.relative_to(ROOT).parts[:2] != ("ktrace", "cli") and "converters" not in file.parts
]
ROOMS = [file for file in sources("converters") if file.parent != ROOT / "converters"]


def test_something_is_looked_at() -> None:
    assert len(CORE) > 10
    assert len(ROOMS) > 10


def test_the_core_imports_only_the_core() -> None:
    allowed_in_core = {"ktrace.__main__": "ktrace.cli"}
    wrong = [
        found
        for file in CORE
        for found in imports(file)
        if found.module.startswith(("ktrace.converters", "ktrace.cli"))
        and allowed_in_core.get(module_name(file)) != found.module
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_only_the_pipeline_knows_readers_and_writers() -> None:
    above = {
        "ktrace",
        "ktrace.output.archive",
        "ktrace.fleet.tasks",
        "ktrace.pipeline.merge",
        "ktrace.output.parts",
        "ktrace.pipeline.convert",
        "ktrace.pipeline.info",
        "ktrace.trace",
        "ktrace.pipeline.validate",
        "ktrace.viewer",
    }
    wrong = [
        found
        for file in CORE
        if module_name(file) not in above and not module_name(file).startswith("ktrace.cli")
        for found in imports(file)
        if found.module == "ktrace.pipeline.convert"
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_a_room_imports_the_core_and_shared_alone() -> None:
    wrong = []
    for file in ROOMS:
        room = module_name(file).split(".")[2]
        for found in imports(file):
            parts = found.module.split(".")
            other_room = parts[:2] == ["ktrace", "converters"] and parts[2:3] not in ([room], ["_shared"], [])
            if other_room or found.module.startswith(
                ("ktrace.cli", "ktrace.pipeline.convert", "ktrace.pipeline.read", "ktrace.input.detection")
            ):
                wrong.append(found)
    assert not wrong, "\n".join(map(str, wrong))


def test_nobody_imports_the_given_folders_by_their_bare_names() -> None:
    wrong = [
        found
        for file in ALL
        for found in imports(file)
        if found.module.split(".")[0] in ("converters", "schema", "proto")
    ]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("part", ["cli", "probes", "formats"])
def test_what_runs_at_start_is_light(part: str) -> None:
    """--help, the list of formats and the probes import nothing heavy."""
    files = {
        "cli": sources("ktrace/cli"),
        "probes": [file for file in ROOMS if file.name in ("probe.py", "__init__.py")],
        "formats": [ROOT / "converters/formats.py", *(ROOT / f"{name.replace('.', '/')}.py" for name in LIGHT_CORE)],
    }[part]
    assert files
    wrong = [
        found for file in files for found in imports(file) if found.at_start and found.module.split(".")[0] in HEAVY
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_the_core_that_probes_use_is_light() -> None:
    used = {
        found.module
        for file in ROOMS
        if file.name == "probe.py"
        for found in imports(file)
        if found.at_start and found.module.startswith("ktrace.") and not found.module.startswith("ktrace.converters")
    }
    assert used <= LIGHT_CORE, used - LIGHT_CORE


def test_files_are_short() -> None:
    """DESIGN.md: files under about 400 lines. Data and generated modules are free."""
    long = {
        str(file.relative_to(ROOT)): lines
        for file in ALL
        if (lines := len(file.read_text("utf-8").splitlines())) > 420 and file.name != "formats.py"
    }
    assert not long, long
