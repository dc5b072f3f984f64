"""Who may import whom (docs/design.md): found by walking the imports, not by running the code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import ROOT

HEAVY = ("pyarrow", "pandas", "numpy", "rich", "jsonschema", "jsonschema_rs", "perfetto", "google", "msgspec", "duckdb")
LIGHT_CORE = {
    *("ktrace.kit", "ktrace.errors"),
    *(f"ktrace.input.{name}" for name in ("format", "source", "detection", "compression")),
}

#: The packages and modules that answer one question each.
QUESTIONS = sorted({path.stem for path in (ROOT / "ktrace/analysis/questions").iterdir()} - {"__init__", "__pycache__"})

#: The packages of the core, the lowest layer first. A package imports only what stands on a lower layer.
LAYERS = (
    ("errors", "byte_account", "native", "scratch"),
    ("report", "model", "naming"),
    ("conversion", "parallel", "store", "tables"),
    ("input", "stages.order", "stages.names", "stages.launch_tables", "stages.launch_matching"),
    ("stages.layout", "stages.metrics", "stages.redact", "stages.execution_trace", "stages.replays"),
    ("stages.select",),
    ("stages.align", "stages.split", "analysis.work"),
    ("output", "stages.clock_repair", *(f"analysis.questions.{name}" for name in QUESTIONS if name != "breakdown")),
    ("pipeline", "kit", "analysis.questions.breakdown"),
    ("analysis.answers.summary", "analysis.answers.query", "fleet"),
    ("analysis.answers.diff", "analysis.answers.whatif"),
    ("page", "analysis.answers.mcp"),
    ("trace", "viewer"),
    ("cli",),
    ("__main__",),
)

#: Packages that only hold others, each with its layers.
LAYERS_OF_ANALYSIS = ("analysis", "analysis.questions", "analysis.answers")

#: What a package of converters/ may import of the core.
FOR_FORMATS = {
    *("errors", "byte_account", "native", "scratch", "report", "conversion"),
    *("model", "naming", "parallel", "store", "input", "output", "stages", "kit", "proto"),
}

#: Modules that know how to read and how to write: each is one way from inputs to outputs.
BOTH = {"ktrace.pipeline.convert", "ktrace.fleet.tasks"}


#: Imports that may lead back. `ktrace` names, for type checkers, what it imports when a name is used, and gives its
#: version to all.
BACK = {("ktrace", "*")}


class Import(NamedTuple):
    """An import: where it stands, what it names, whether it runs when the module is imported."""

    file: Path
    line: int
    module: str
    at_start: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: imports {self.module}"


def module_name(file: Path) -> str:
    """The installed name of a source file: converters/mlc.py is ktrace.converters.mlc."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "ktrace" else ("ktrace", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(file: Path, *, for_types: bool = False) -> tuple[Import, ...]:
    """The imports of a file, with those below TYPE_CHECKING if wanted; relative ones are made absolute."""
    return tuple(_imports(file, tree_of(file), for_types=for_types))


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def _statements(nodes: Iterable[ast.AST], *, local: bool, for_types: bool) -> Iterator[tuple[ast.AST, bool]]:
    """The statements among nodes and below them, and whether each is in a function or below TYPE_CHECKING.

    Without `for_types` those below TYPE_CHECKING are left out.
    """
    for node in nodes:
        yield node, local
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        inside = local or typing_only or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, part, None)
            if isinstance(inner, list) and (for_types or not typing_only):
                yield from _statements(inner, local=inside, for_types=for_types)


def _imports(file: Path, tree: ast.Module, *, for_types: bool) -> Iterator[Import]:
    package = module_name(file).split(".")
    package = package if file.name == "__init__.py" else package[:-1]
    for node, local in _statements(tree.body, local=False, for_types=for_types):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, node.module or ""]).rstrip(".")
            members = [f"{module}.{alias.name}" for alias in node.names]
            names = list(dict.fromkeys(member if member in MODULES else module for member in members))
        for name in names:
            yield Import(file, getattr(node, "lineno", 0), name, not local)


def sources(folder: str) -> list[Path]:
    return sorted(file for file in (ROOT / folder).rglob("*.py") if "__pycache__" not in file.parts)


ALL = [file for folder in ("ktrace", "converters") for file in sources(folder) if not file.is_symlink()]
MODULES = {module_name(file): file for file in ALL}
CORE = [file for file in ALL if "converters" not in file.parts]
#: The modules of formats: single ones, and those of packages.
FORMATS = [
    file
    for file in sources("converters")
    if file.parent != ROOT / "converters" or file.stem not in ("__init__", "formats", "listed")
]


def package(module: str) -> str:
    """The package of a module: ktrace.stages.order.sweep is in stages.order, ktrace.model.batch in model."""
    parts = module.split(".")[1:]
    depth = 3 if parts[:2] in (["analysis", "questions"], ["analysis", "answers"]) else 2
    return ".".join(parts[: depth if parts[:1] in (["stages"], ["analysis"]) else 1])


def test_something_is_looked_at() -> None:
    assert len(CORE) > 10
    assert len(FORMATS) > 10


def test_the_root_has_few_entries() -> None:
    entries = {path.name for path in (ROOT / "ktrace").iterdir()} - {"__pycache__"}
    assert len(entries) <= 28, sorted(entries)


def test_every_package_of_the_core_has_its_layer() -> None:
    placed = [name for layer in LAYERS for name in layer]
    assert len(placed) == len(set(placed))
    assert {package(module_name(file)) for file in CORE} - {"", "stages", *LAYERS_OF_ANALYSIS} == set(placed)
    assert len(LAYERS) <= 15


def test_no_import_goes_up() -> None:
    """A package imports lower layers; `ktrace` itself gives its version to all."""
    layer = {name: number for number, names in enumerate(LAYERS) for name in names}
    wrong = []
    for file in CORE:
        mine = package(module_name(file))
        if package(module_name(file)) in ("", "stages", *LAYERS_OF_ANALYSIS):
            continue
        for found in imports(file):
            other = package(found.module)
            foreign = not found.module.startswith("ktrace") or other in (mine, "", "schema", "proto")
            if not foreign and layer.get(other, len(LAYERS)) >= layer[mine]:
                wrong.append(found)
    assert not wrong, "\n".join(map(str, wrong))


def test_there_are_no_circles() -> None:
    """No chain of imports, also of late ones and those for types, leads back to the module where it began."""
    graph = {
        name: {
            found.module: found
            for found in imports(file, for_types=True)
            if found.module in MODULES and found.module != name and not {(name, "*"), (name, found.module)} & BACK
        }
        for name, file in MODULES.items()
    }
    done: set[str] = set()
    circles: list[str] = []

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            circle = [*path[path.index(name) :], name]
            circles.append("\n".join(str(graph[one][other]) for one, other in pairwise(circle)))
        elif name not in done:
            for other in graph[name]:
                visit(other, [*path, name])
            done.add(name)

    for name in graph:
        visit(name, [])
    assert not circles, "\n\n".join(circles)


def test_few_modules_know_how_to_read_and_how_to_write() -> None:
    reads, writes = (
        {"ktrace.pipeline.read"},
        {"ktrace.output.write", "ktrace.output.parts"},
    )
    both = {
        module_name(file)
        for file in CORE
        if (known := {found.module for found in imports(file)}) & reads and known & writes
    }
    assert both == BOTH


def test_a_format_imports_its_own_modules_the_kit_and_the_core_below_it() -> None:
    wrong = []
    for file in FORMATS:
        mine = module_name(file).split(".")[2]
        for found in imports(file):
            parts = found.module.split(".")
            if parts[0] != "ktrace" or len(parts) == 1:
                continue
            allowed = parts[2:3] in ([mine], []) if parts[1] == "converters" else parts[1] in FOR_FORMATS
            if not allowed:
                wrong.append(found)
    assert not wrong, "\n".join(map(str, wrong))


def test_a_format_imports_its_own_modules_relatively_and_all_else_absolutely() -> None:
    """So the text of a package is the same inside ktrace and in a package of its own."""
    wrong = []
    for file in FORMATS:
        own, depth = ".".join(module_name(file).split(".")[:3]), len(file.relative_to(ROOT / "converters").parts) - 1
        found = [node for node in ast.walk(tree_of(file)) if isinstance(node, ast.ImportFrom)]
        for node in found:
            place = f"{file.relative_to(ROOT)}:{node.lineno}"
            if not node.level and f"{node.module}.".startswith(f"{own}."):
                wrong.append(f"{place}: imports {node.module}, which is in its own package")
            elif node.level > depth:
                wrong.append(f"{place}: leaves its package by dots")
    assert not wrong, "\n".join(wrong)


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
        "probes": [file for file in FORMATS if file.name == "__init__.py"],
        "formats": [ROOT / "converters/listed.py", *(MODULES[name] for name in LIGHT_CORE)],
    }[part]
    assert files
    wrong = [
        found for file in files for found in imports(file) if found.at_start and found.module.split(".")[0] in HEAVY
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_the_core_that_probes_use_is_light() -> None:
    used = {
        found.module
        for file in FORMATS
        if file.name == "__init__.py"
        for found in imports(file)
        if found.at_start
        and found.module.startswith("ktrace.")
        and not found.module.startswith(("ktrace.converters", "ktrace.kit."))
    }
    assert used <= LIGHT_CORE, used - LIGHT_CORE
