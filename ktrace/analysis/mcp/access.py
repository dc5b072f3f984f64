"""What an agent may read and write: inputs in allowed folders, outputs in one folder.

Access(["/data/runs"]).inputs("rank*.json.gz")     /data/runs/rank0.json.gz, ...
Access(["/data/runs"]).inputs("../.ssh/id_rsa")    Refused

Names are resolved first, through all links, and the resolved ones are read.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ktrace.errors import InputError, OutputError, UsageError
from ktrace.input.compression import split_member
from ktrace.input.source import near_files
from ktrace.input.stores import is_remote


class Refused(UsageError):
    """The server may not read or write this."""


class Access:
    """The folders, and prefixes of URLs, that may be read; the folder that may be written, None for none.

    Raises InputError for one that isn't a folder.
    """

    def __init__(self, allowed: Sequence[str | Path], export_to: str | Path | None = None) -> None:
        names = [str(one) for one in allowed]
        self.urls = [f"{name.rstrip('/')}/" for name in names if is_remote(name)]
        self.folders = [_folder(name) for name in names if not is_remote(name)]
        self.export_to = _folder(str(export_to)) if export_to is not None else None

    def inputs(self, path: str) -> list[str]:
        """The resolved paths of a file, a folder or a pattern; relative ones are in the first folder.

        Raises Refused, also where a link in a folder leads out, InputError where there is no such file.
        """
        if is_remote(path):
            return [self._url(path)]
        if path in ("", "-") or "\0" in path or ".." in Path(path).parts:
            raise self._refused(path, "isn't the name of a file in an allowed folder")
        whole = path if Path(path).is_absolute() or not self.folders else str(self.folders[0] / path)
        found = [whole]
        if glob.has_magic(path) and not os.path.lexists(whole):
            self._inside(_before_pattern(whole), path)  # else names elsewhere could be asked for
            found = sorted(glob.glob(whole, recursive=True))  # noqa: PTH207 (pathlib refuses absolute patterns)
            if not found:
                raise InputError("no file matches this pattern", path=path, expected=near_files(whole))
        return [self._input(one, path) for one in found]

    def _input(self, name: str, asked: str) -> str:
        stored, member = split_member(name)
        real = self._inside(stored, asked)
        if not real.exists():
            raise InputError("there is no such file", path=asked, expected=near_files(str(real)))
        mode = real.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise self._refused(asked, "is neither a file nor a folder")
        for beside in _read_along(real):
            if beside.is_symlink():
                self._inside(str(beside), asked)
        return str(real) + (f"!{member}" if member is not None else "")

    def _inside(self, name: str, asked: str) -> Path:
        """The resolved path. Raises Refused where it is in no allowed folder."""
        real = Path(os.path.realpath(name))
        if not any(real == folder or folder in real.parents for folder in self.folders):
            raise self._refused(asked, "isn't in an allowed folder, or a link there leads out of it")
        return real

    def _url(self, path: str) -> str:
        if ".." in path.split("/") or not any(path.startswith(prefix) for prefix in self.urls):
            raise self._refused(path, "is a URL that isn't allowed")
        return path

    def _refused(self, path: str, why: str) -> Refused:
        places = ", ".join([*map(str, self.folders), *self.urls])
        remedy = "start the server with --allow DIR to allow another one"
        return Refused(why, path=path, expected=f"something in {places}", remedy=remedy)

    def output(self, name: str) -> str:
        """The path of a new file in the folder for exports. Raises Refused, OutputError where it exists."""
        if self.export_to is None:
            raise Refused("this server writes nothing", remedy="start it with --export-to DIR")
        path = Path(name)
        if not name or path.name != name or "\0" in name or name.startswith((".", "-")):
            raise Refused("isn't a plain name of a file", path=name, expected=f"a name in {self.export_to}")
        target = self.export_to / name
        if os.path.lexists(target):
            raise OutputError("exists already", path=name, remedy="choose another name")
        return str(target)


def _folder(name: str) -> Path:
    if not Path(name).is_dir():
        raise InputError("isn't a folder", path=name, expected="a folder that exists")
    return Path(os.path.realpath(name))


def _before_pattern(path: str) -> str:
    """The folders before the first part that is a pattern."""
    parts = Path(path).parts
    first = next(place for place, part in enumerate(parts) if glob.has_magic(part))
    return str(Path(*parts[:first]))


def _read_along(real: Path) -> Iterator[Path]:
    """What may be read with a file or folder: all that is in it, companions whose names begin with that of the file."""
    if real.is_dir():
        for folder, folders, files in os.walk(real):
            yield from (Path(folder) / name for name in (*folders, *files))
    else:
        yield from real.parent.glob(f"{glob.escape(real.name)}?*")
