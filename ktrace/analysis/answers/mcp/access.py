"""What an agent may read and write: inputs in allowed folders, outputs in one folder.

Access(["/data/runs"]).inputs("rank*.json.gz")     /data/runs/rank0.json.gz, ...
Access(["/data/runs"]).inputs("../.ssh/id_rsa")    Refused

Names are resolved first, through all links, and the resolved ones are read. That says what is refused before anything
is read; what keeps an agent in the folders, whatever a name leads to by then, is `in_force`: every file that is opened
within it must lie in one of them, that of a name and all those that are read along with it.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from fnmatch import fnmatchcase
from pathlib import Path

from ktrace.errors import InputError, OutputError, UsageError
from ktrace.input.companions import files_of
from ktrace.input.compression import split_member
from ktrace.input.files import MOST_FILES, confined, entries_of
from ktrace.input.source import near_files
from ktrace.input.stores import is_remote

_LEADS_OUT = "isn't in an allowed folder, or a link there leads out of it"

#: Bytes of the longest name of a file.
_LONGEST = 255


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

    def in_force(self) -> AbstractContextManager[None]:
        """Within this block no file outside of the allowed folders is opened as an input: Refused instead."""
        return confined(self._require)

    def _require(self, place: str, name: str) -> None:
        if not self._is_inside(Path(place)):
            raise self._refused(name, _LEADS_OUT)

    def inputs(self, path: str) -> list[str]:
        """The resolved paths of a file, a folder or a pattern; relative ones are in the first folder.

        Raises Refused, also where a link in a folder leads out, InputError where there is no such file.
        """
        if is_remote(path):
            if ".." in path.split("/") or not any(path.startswith(prefix) for prefix in self.urls):
                raise self._refused(path, "is a URL that isn't allowed")
            return [path]
        if path in ("", "-") or "\0" in path or not _is_name(path) or ".." in Path(path).parts:
            raise self._refused(path, "isn't the name of a file in an allowed folder")
        whole = path if Path(path).is_absolute() or not self.folders else str(self.folders[0] / path)
        with self.in_force():
            paths = [whole]
            if glob.has_magic(path) and not os.path.lexists(whole):
                parts = Path(whole).parts
                first = next(place for place, part in enumerate(parts) if glob.has_magic(part))
                fixed = self.inside(str(Path(*parts[:first])), path)
                paths = sorted(_Search(self, path).matches(fixed, list(parts[first:])))
                if not paths:
                    raise InputError("no file matches this pattern", path=path, expected=near_files(whole))
            return [self._input(one, path) for one in paths]

    def _input(self, name: str, argument: str) -> str:
        stored, member = split_member(name)
        real = self.inside(stored, argument)
        if not os.path.exists(real):  # noqa: PTH110 (pathlib raises for a name that is too long)
            raise InputError("there is no such file", path=argument, expected=near_files(str(real)))
        mode = real.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise self._refused(argument, "is neither a file nor a folder")
        for link in self._links_in(real, argument) if real.is_dir() else self._links_beside(real, argument):
            self.inside(str(link), argument)
        return str(real) + (f"!{member}" if member is not None else "")

    def _links_in(self, folder: Path, argument: str) -> Iterator[Path]:
        """Yields the links in a folder and below it, wherever they lead; hidden ones are never read."""
        waiting, seen = [folder], 0
        while waiting:
            where = waiting.pop()
            entries = [entry for entry in entries_of(where) if not entry[0].startswith(".")]
            seen += len(entries)
            if seen > MOST_FILES:
                raise _too_many(argument, "name a folder inside it")
            for name, is_link, is_folder in entries:
                if is_link:
                    yield where / name
                elif is_folder:
                    waiting.append(where / name)

    def _links_beside(self, file: Path, argument: str) -> Iterator[Path]:
        """Yields the links that may be read along with a file. Raises Refused for a folder of them that leads out."""
        try:
            yield from (along for along in files_of(str(file)) if along.is_symlink())
        except Refused:
            raise self._refused(argument, _LEADS_OUT) from None

    def inside(self, name: str, argument: str) -> Path:
        """The resolved path. Raises Refused where it is in no allowed folder."""
        real = Path(os.path.realpath(name))
        if not self._is_inside(real):
            raise self._refused(argument, _LEADS_OUT)
        return real

    def _is_inside(self, real: Path) -> bool:
        return any(real == folder or folder in real.parents for folder in self.folders)

    def _refused(self, path: str, why: str) -> Refused:
        places = ", ".join([*map(str, self.folders), *self.urls])
        remedy = "start the server with --allow DIR to allow another one"
        return Refused(why, path=path, expected=f"something in {places}", remedy=remedy)

    def output(self, name: str) -> str:
        """The path of a new file in the folder for exports. Raises Refused, OutputError where it exists."""
        if self.export_to is None:
            raise Refused("this server doesn't write files", remedy="start it with --export-to DIR")
        path = Path(name)
        if not name or path.name != name or "\0" in name or not _is_name(name) or name.startswith((".", "-")):
            raise Refused("isn't a plain file name", path=name, expected=f"a name in {self.export_to}")
        target = self.export_to / name
        if os.path.lexists(target):
            raise OutputError("already exists", path=name, remedy="choose another name")
        return str(target)


def _folder(name: str) -> Path:
    if not Path(name).is_dir():
        raise InputError("isn't a folder", path=name, expected="a folder that exists")
    return Path(os.path.realpath(name))


def _is_name(path: str) -> bool:
    """Whether a path is one that the system can be asked for."""
    try:
        return all(len(part) <= _LONGEST for part in os.fsencode(path).split(b"/"))
    except UnicodeEncodeError:
        return False


def _too_many(path: str, remedy: str) -> InputError:
    return InputError(f"would have to search more than {MOST_FILES:,} files", path=path, remedy=remedy)


class _Search:
    """The search for what a pattern matches, as in `glob`, within allowed folders alone.

    A link that leads out and fits into the pattern is refused as it is, without a look at what is there.
    """

    def __init__(self, access: Access, argument: str) -> None:
        self._access, self._asked = access, argument
        self._waiting: list[tuple[Path, list[str]]] = []
        self._known = set[tuple[Path, int]]()
        self._found = set[str]()
        self._seen = 0

    def matches(self, folder: Path, parts: list[str]) -> set[str]:
        """The paths in a folder that match. Raises Refused, InputError where the search takes too long."""
        self._waiting.append((folder, parts))
        while self._waiting:
            folder, parts = self._waiting.pop()
            if (folder, len(parts)) not in self._known:
                self._known.add((folder, len(parts)))
                self._look(folder, *parts)
        return self._found

    def _look(self, folder: Path, part: str, *rest: str) -> None:
        """Finds what the first part of the pattern matches in a folder; the rest waits."""
        if not glob.has_magic(part):
            if os.path.lexists(folder / part):
                self._take(folder / part, rest, is_link=(folder / part).is_symlink())
            return
        if part == "**":
            self._waiting += [(folder, list(rest))] if rest else []
            self._found |= set() if rest else {str(folder)}
        for name, is_link, is_folder in self._entries(folder):
            if name.startswith(".") and not part.startswith("."):
                continue
            if part != "**":
                if fnmatchcase(name, part):
                    self._take(folder / name, rest, is_link=is_link)
            elif is_link or is_folder:
                self._take(folder / name, (part, *rest), is_link=is_link)
            elif not rest:
                self._found.add(str(folder / name))

    def _take(self, path: Path, rest: tuple[str, ...], *, is_link: bool) -> None:
        """Takes a path that matches, or the folder in which the rest may match; all before its name is resolved."""
        real = self._access.inside(str(path), self._asked) if is_link else path
        if not rest:
            self._found.add(str(path))
        elif real.is_dir():
            self._waiting.append((real, list(rest)))
        elif rest == ("**",):
            self._found.add(str(path))

    def _entries(self, folder: Path) -> list[tuple[str, bool, bool]]:
        """What `entries_of` finds; nothing where a folder can't be listed, as in `glob`."""
        try:
            entries = entries_of(folder)
        except OSError:
            return []
        self._seen += len(entries)
        if self._seen > MOST_FILES:
            raise _too_many(self._asked, "start the pattern with a deeper folder")
        return entries
