"""`ktrace new-format`: the files of a format, filled so that its tests pass at once.

The templates are in _templates/<kind>/, those of every kind in _templates/common/. In the repository of ktrace a format
is a module in converters/; in a distribution of its own the same module is a package.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from ktrace.cli._console import print_line
from ktrace.errors import UsageError

TEMPLATES = Path(__file__).parent / "_templates"

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


@dataclass(frozen=True)
class Like:
    """A kind of format: its file suffix, a title, what its test imports."""

    suffix: str
    title: str
    imports: str


#: What `--like` takes.
LIKES = {
    "text-table": Like(".txt", "a table of kernels in text", "from decimal import Decimal\n"),
    "csv": Like(".csv", "a CSV of kernels", "import csv\n"),
    "sqlite": Like(".sqlite", "an SQLite database of kernels", "import sqlite3\nfrom contextlib import closing\n"),
    "trace-json": Like(".json", "Trace Event JSON", "import json\n"),
    "json": Like(".jsonl", "JSON Lines of kernels", "import json\n"),
}


@dataclass(frozen=True)
class NewFormat:
    """A format that is to be laid."""

    name: str
    like: str

    @property
    def module(self) -> str:
        """The name of its module."""
        return self.name.replace("-", "_")

    @property
    def title(self) -> str:
        """The title in lists of formats."""
        return f"{self.name}, {LIKES[self.like].title}"

    @property
    def pattern(self) -> str:
        """The file names that it goes by."""
        return f"*.{self.name}{LIKES[self.like].suffix}"

    def text(self, template: str, **more: str) -> str:
        """A template with the names of this format, `kind/file` or `common/file`."""
        like = LIKES[self.like]
        text = (TEMPLATES / template).read_text("utf-8")
        values = {"name": self.name, "module": self.module, "title": self.title, "suffix": like.suffix, **more}
        values["pattern"] = self.pattern
        for key, value in {"imports": like.imports, **values}.items():
            text = text.replace(f"{{{{{key}}}}}", value)
        return text

    def declared(self) -> bytes:
        """The module that recognises and reads it."""
        return self.text(f"{self.like}/format.py.txt").encode()

    def sample(self) -> bytes:
        """The bytes of the sample."""
        source = "sample.sql" if self.like == "sqlite" else f"sample{LIKES[self.like].suffix}"
        text = self.text(f"{self.like}/{source}")
        return _database(text) if self.like == "sqlite" else text.encode()


def _database(script: str) -> bytes:
    """The file of an SQLite database."""
    import sqlite3
    import tempfile
    from contextlib import closing

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "database"
        with closing(sqlite3.connect(path)) as database:
            database.executescript(script)
        return path.read_bytes()


def new_format(name: str, like: str) -> NewFormat:
    """Returns the format of this name. Raises UsageError for a name that can't be one or is taken."""
    from keyword import iskeyword

    from ktrace.input.format import all_formats

    if not _NAME.fullmatch(name) or iskeyword(name):
        raise UsageError(f"'{name}' can't be the name of a format", expected="a-z, 0-9 and -, a letter first")
    if name in {fmt.name for fmt in all_formats()}:
        raise UsageError(
            f"there is a format '{name}' already", remedy="choose another name; `ktrace formats` lists those taken"
        )
    return NewFormat(name, like)


def in_repository(fmt: NewFormat, root: Path) -> list[Path]:
    """Lays the format into a checkout of ktrace and returns what was made and changed.

    Raises UsageError where `root` isn't one, and where a file already exists.
    """
    formats = root / "converters/formats.py"
    if not formats.is_file() or not (root / "tests/test_contract.py").is_file():
        raise UsageError(
            f"{root} isn't a checkout of ktrace",
            expected="its folders converters/, samples/ and tests/",
            remedy="run it there, or use --package DIR for a package of your own",
        )
    suffix = LIKES[fmt.like].suffix
    made = {root / f"converters/{fmt.module}.py": fmt.declared()}
    made[root / f"samples/{fmt.name}/first-run{suffix}"] = fmt.sample()
    test = fmt.text("common/test_head.txt", up=".parent.parent") + fmt.text(f"{fmt.like}/test.py.txt")
    made[root / f"tests/converters/test_{fmt.module}.py"] = test.encode()
    made[root / f"tests/golden_rows/{fmt.name}.json"] = fmt.text(f"{fmt.like}/golden.json").encode()
    made[root / f"docs/formats/{fmt.name}.md"] = fmt.text("common/page.md").encode()
    samples = root / "samples/README.md"
    changed = {
        formats: _before(formats, '    "Any table"', f'    "{fmt.title}": "{fmt.module}",'),
        samples: _appended(samples, f"| `{fmt.name}/first-run{suffix}` | nothing: three kernels |"),
    }
    return [*_write(made, changed), *_generated(root)]


def _generated(root: Path) -> list[Path]:
    """Writes anew what repeats the declarations of formats, as a program of the checkout, and returns these files."""
    import subprocess

    for command in (("-m", "ktrace.converters.formats"), ("docs/generate.py",)):
        subprocess.run([sys.executable, *command], cwd=root, env=os.environ | {"PYTHONPATH": "."}, check=True)
    return [root / name for name in ("converters/listed.py", "docs/formats.md", "docs/README.md")]


def in_package(fmt: NewFormat, folder: Path) -> list[Path]:
    """Lays the format as a package of its own and returns what was made. Raises UsageError where a file is there."""
    distribution, package = f"ktrace-{fmt.name}", f"ktrace_{fmt.module}"
    made = {folder / f"src/{package}/__init__.py": fmt.declared()}
    made[folder / f"samples/{fmt.name}/first-run{LIKES[fmt.like].suffix}"] = fmt.sample()
    parts = [fmt.text("common/test_head.txt", up=".parent"), fmt.text("common/test_package.txt")]
    made[folder / f"tests/test_{fmt.module}.py"] = "".join([*parts, fmt.text(f"{fmt.like}/test.py.txt")]).encode()
    for name, template in (("pyproject.toml", "pyproject.toml.txt"), ("README.md", "README.md")):
        made[folder / name] = fmt.text(f"common/{template}", distribution=distribution, package=package).encode()
    return _write(made, {})


def _before(path: Path, start: str, line: str) -> bytes:
    """The text of a file with a line before the first one that begins so."""
    return _inserted(path, line, lambda lines: next((at for at, it in enumerate(lines) if it.startswith(start)), None))


def _appended(path: Path, line: str) -> bytes:
    """The text of a file with a line after its last row of a table."""
    return _inserted(
        path, line, lambda lines: max((at + 1 for at, it in enumerate(lines) if it.startswith("| ")), default=None)
    )


def _inserted(path: Path, line: str, place: Callable[[list[str]], int | None]) -> bytes:
    lines = path.read_text("utf-8").split("\n")
    at = place(lines)
    if at is None:
        raise UsageError(f"{path} has no line where the format belongs", remedy=f"add it by hand: {json.dumps(line)}")
    return "\n".join([*lines[:at], line, *lines[at:]]).encode()


def _write(made: dict[Path, bytes], changed: dict[Path, bytes]) -> list[Path]:
    """Writes the files: those that are new, and those that are changed."""
    if there := [path for path in made if path.exists()]:
        raise UsageError(f"{there[0]} already exists", remedy="choose another name, or remove it first")
    for path, data in (made | changed).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return [*made, *changed]


@click.command("new-format")
@click.argument("name", metavar="NAME")
@click.option("--like", type=click.Choice(list(LIKES)), required=True, help="The kind of file that it reads.")
@click.option(
    "--package",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Make a package of its own in DIR, a plug-in of ktrace.",
)
def command(name: str, like: str, package: Path | None) -> None:
    """Write the files of a new format NAME: reader, sample, test and page.

    They work as written: change one of them at a time. Without --package they are written into the current folder, a
    checkout of ktrace.

    \b
    ktrace new-format my-tool --like csv                          in the repository of ktrace
    ktrace new-format my-tool --like csv --package ktrace-my-tool
    """
    fmt = new_format(name, like)
    for path in in_package(fmt, package) if package else in_repository(fmt, Path()):
        print_line(str(path))
    if package:
        print_line(f"next: cd {package} && pip install -e . && python -m pytest", err=True)
    else:
        tests = f"tests/test_contract.py -k '[{name}' tests/converters/test_{fmt.module}.py"
        print_line(f"next: python -m pytest {tests}", err=True)
