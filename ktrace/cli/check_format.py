"""`ktrace check-format`: what every format promises, checked on samples of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrace.cli._console import write_stdout
from ktrace.errors import UsageError
from ktrace.parallel.startup import import_pyarrow
from ktrace.tables import escape_controls

if TYPE_CHECKING:
    from ktrace.input.format import Format


@click.command("check-format")
@click.argument("what", metavar="NAME|FOLDER")
@click.argument("samples", metavar="[SAMPLE...]", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.pass_context
def command(ctx: click.Context, what: str, samples: tuple[Path, ...]) -> None:
    """Check that a format keeps what every format promises.

    NAME is a format that `ktrace formats` lists. FOLDER is that of a package with formats, installed with
    `pip install -e FOLDER`. Without SAMPLE the samples are the files in samples/NAME/ of the folder, or of this one.
    The exit code is 1 if a promise is broken.

    \b
    ktrace check-format my-tool run.csv
    ktrace check-format ktrace-my-tool
    """
    import_pyarrow()
    from ktrace.trace.contract import promises

    broken = 0
    for fmt, files in _chosen(what, list(samples)):
        write_stdout(f"{fmt.name}, {len(files)} {'sample' if len(files) == 1 else 'samples'}\n")
        for promise, seen in promises(fmt, files):
            write_stdout(f"  {'BROKEN' if seen else 'ok':8}{promise}{': ' + escape_controls(seen) if seen else ''}\n")
            broken += bool(seen)
    ctx.exit(1 if broken else 0)


def _chosen(what: str, samples: list[Path]) -> list[tuple[Format, list[Path]]]:
    """The formats that are meant and the samples of each. Raises UsageError where there are none."""
    from ktrace.input.detection import by_name

    folder = Path(what)
    if not folder.is_dir():
        formats = [(by_name(what), samples or _samples(Path(), what))]
    else:
        formats = [(by_name(name), samples or _samples(folder, name)) for name in _declared(folder)]
    for fmt, files in formats:
        if not files:
            raise UsageError(
                f"there is no sample of {fmt.name}", expected=f"files in samples/{fmt.name}/", remedy="name a sample"
            )
    return formats


def _samples(folder: Path, name: str) -> list[Path]:
    return sorted(path for path in (folder / "samples" / name).glob("*") if path.suffix != ".toml")


def _declared(folder: Path) -> list[str]:
    """The names of the formats that the package in a folder declares. Raises UsageError where it declares none."""
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    from ktrace.input.format import GROUP

    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} isn't the folder of a package: {error}", expected="its pyproject.toml") from None
    names = list(project.get("project", {}).get("entry-points", {}).get(GROUP, {}))
    if not names:
        raise UsageError(f"{folder}/pyproject.toml declares no formats", expected=f'[project.entry-points."{GROUP}"]')
    return names
