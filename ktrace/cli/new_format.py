"""`ktrace new-format`: the files of a new format."""

from __future__ import annotations

from pathlib import Path

import click

from ktrace.cli._console import tell
from ktrace.cli._scaffold import LIKES, in_package, in_repository, new_format


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
        tell(str(path))
    if package:
        tell(f"next: cd {package} && pip install -e . && python -m pytest", err=True)
    else:
        tests = f"tests/test_contract.py -k '[{name}' tests/converters/test_{fmt.module}.py"
        tell(f"next: python -m pytest {tests}", err=True)
