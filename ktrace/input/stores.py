"""Folders of files, local or in an object store, with the few operations that a dataset needs.

    open_store("runs/all.parquet/")             Local, by the file system
    open_store("s3://bucket/all.parquet/")      Remote, by fsspec: s3, gs, http, ...

Names are paths below the folder with '/' between their parts. A file that is put there appears whole or not at all.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from ktrace.errors import InputError, KtraceError, OutputError, import_extra
from ktrace.input.files import open_file
from ktrace.scratch import locked

#: The folder in a dataset for unfinished files; no name in it ends in .parquet.
TEMPORARY = "_ktrace/tmp"


class Store(Protocol):
    """A folder.

    Raises InputError if it can't be reached, or a name leads out of it, OSError if a file in it can't be read.
    """

    path: str

    def files(self) -> dict[str, int]:
        """Returns the files in and below the folder, and their sizes in bytes; none if it doesn't exist."""

    def open(self, name: str) -> BinaryIO:
        """Opens a file as a stream that can be seeked."""

    def read(self, names: Iterable[str]) -> list[bytes]:
        """Returns the content of each file."""

    def write(self, name: str, data: bytes) -> None:
        """Writes a small file completely or not at all."""

    def temporary(self) -> Path:
        """Returns the name of a local file to be written and then `put`."""

    def put(self, file: Path, name: str) -> None:
        """Moves a local file into the folder."""

    def move(self, name: str, to: str) -> None:
        """Renames a file of the folder."""

    def remove(self, names: Iterable[str]) -> None:
        """Removes files; missing ones don't matter."""

    def tidy(self) -> None:
        """Removes files of unfinished work from the folder."""

    def alone(self) -> AbstractContextManager[None]:
        """Keeps other batches from writing to the folder. Raises OutputError if one does."""


def is_remote(path: str) -> bool:
    """Whether the path is a URL."""
    return "://" in path


def open_store(path: str) -> Store:
    """Opens a folder by name or URL. Raises InputError if fsspec or the package for its protocol is missing."""
    path = path.removeprefix("file://")
    return Remote(path) if is_remote(path) else Local(path)


class Local:
    """A local or mounted folder."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._root = Path(path)

    def files(self) -> dict[str, int]:
        sizes = {}
        for folder, _, names in os.walk(self._root):
            for name in names:
                file = Path(folder) / name
                with suppress(FileNotFoundError):  # removed meanwhile
                    sizes[file.relative_to(self._root).as_posix()] = file.stat().st_size
        return sizes

    def open(self, name: str) -> BinaryIO:
        return open_file(self.inside(name))

    def read(self, names: Iterable[str]) -> list[bytes]:
        contents = []
        for name in names:
            with self.open(name) as file:
                contents.append(file.read())
        return contents

    def inside(self, name: str, *, content: bool = True) -> Path:
        """Returns the path of a file. Raises InputError if its name, `..` in it or a link leads out of the folder.

        Without `content` the file itself may be a link, since it is only removed or replaced.
        """
        path = self._root / name
        real = os.path.realpath(path if content else path.parent)
        if os.path.commonpath([real, os.path.realpath(self._root)]) != os.path.realpath(self._root):
            raise InputError(
                "leads out of the dataset",
                path=self.path,
                where=name,
                expected="a file in the folder of the dataset itself",
                remedy="copy the file to that place if it is yours; remove the link otherwise",
            )
        return path

    def write(self, name: str, data: bytes) -> None:
        file = self.temporary()
        file.write_bytes(data)
        self.put(file, name)

    def temporary(self) -> Path:
        folder = self.inside(TEMPORARY)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / os.urandom(8).hex()

    def put(self, file: Path, name: str) -> None:
        target = self.inside(name, content=False)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.replace(target)

    def move(self, name: str, to: str) -> None:
        self.put(self.inside(name), to)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.inside(name, content=False).unlink(missing_ok=True)

    def tidy(self) -> None:
        shutil.rmtree(self.inside(TEMPORARY), ignore_errors=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        folder = self.inside("_ktrace")
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder) as is_ours:
            if not is_ours:
                raise OutputError(
                    "another `ktrace batch` is writing this dataset",
                    path=self.path,
                    remedy="wait until it has finished",
                )
            yield


class Remote:
    """A folder behind fsspec. Object stores show a file only once it is complete, so that nothing is renamed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fs, self._root = filesystem(path.rstrip("/"))

    def files(self) -> dict[str, int]:
        with wrap_store_errors(self.path):
            self._fs.invalidate_cache()
            try:
                sizes: dict[str, dict[str, Any]] = self._fs.find(self._root, detail=True)
            except FileNotFoundError:
                return {}
        below = len(self._root) + 1
        return {name[below:]: info.get("size") or 0 for name, info in sizes.items() if info["type"] == "file"}

    def open(self, name: str) -> BinaryIO:
        # Without a cache each reading is one request: a column of a Parquet file.
        opened: BinaryIO = self._fs.open(f"{self._root}/{name}", "rb", cache_type="none")
        return opened

    def read(self, names: Iterable[str]) -> list[bytes]:
        paths = [f"{self._root}/{name}" for name in names]
        if not paths:
            return []
        with wrap_store_errors(self.path):
            contents: dict[str, bytes] = self._fs.cat(paths)
        return [contents[path] for path in paths]

    def write(self, name: str, data: bytes) -> None:
        with wrap_store_errors(self.path):
            self._fs.pipe_file(f"{self._root}/{name}", data)

    def temporary(self) -> Path:
        return Path(tempfile.gettempdir()) / f"ktrace.{os.urandom(8).hex()}"

    def put(self, file: Path, name: str) -> None:
        with wrap_store_errors(self.path):
            self._fs.put_file(str(file), f"{self._root}/{name}")
        file.unlink()

    def move(self, name: str, to: str) -> None:
        with wrap_store_errors(self.path):
            self._fs.cp_file(f"{self._root}/{name}", f"{self._root}/{to}")
            self._fs.rm_file(f"{self._root}/{name}")

    def remove(self, names: Iterable[str]) -> None:
        with wrap_store_errors(self.path):
            for name in names:
                with suppress(FileNotFoundError):
                    self._fs.rm_file(f"{self._root}/{name}")

    def tidy(self) -> None:
        """Does nothing: unfinished files are on the machines that write them."""

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Object stores have no locks."""
        yield


def remote_files(pattern: str) -> dict[str, dict[str, Any]]:
    """Returns the files that a URL or a pattern of URLs names, by their URLs in order, with the store's facts on each.

    A URL that ends in '/', or names a folder of an object store, is the files in and below it. Raises InputError if
    there are none, or the store can't be reached.
    """
    fs, path = filesystem(pattern)
    protocol = pattern.partition("://")[0]
    magic = has_wildcard(pattern)
    with wrap_store_errors(pattern):
        fs.invalidate_cache()
        try:
            listed: dict[str, dict[str, Any]] = fs.glob(path, detail=True) if magic else {path: fs.info(path)}
            if not magic and any(info["type"] == "directory" for info in listed.values()):
                listed = fs.find(path, detail=True)
        except FileNotFoundError:
            listed = {}
    files = {name: info for name, info in sorted(listed.items()) if info["type"] == "file"}
    if not files:
        what = "no file matches this pattern" if magic else "no such file"
        raise InputError(what, path=pattern, remedy="check the spelling")
    return {name if "://" in name else f"{protocol}://{name}": info for name, info in files.items()}


def has_wildcard(url: str) -> bool:
    """Whether a URL is a pattern: '*' or '[' after the host; '?' begins its query."""
    return any(mark in url.partition("://")[2].partition("/")[2] for mark in "*[")


def as_folder(url: str) -> str:
    """Returns a URL with '/' at its end if it names a folder of a store; a server of http has no folders."""
    if url.endswith("/") or has_wildcard(url) or url.startswith(("http:", "https:")):
        return url
    fs, path = filesystem(url)
    with wrap_store_errors(url):
        return f"{url}/" if fs.isdir(path) else url


def filesystem(path: str) -> tuple[Any, str]:
    """Returns fsspec's file system for a URL, and the path in it. Raises InputError if a package is missing."""
    fsspec = import_extra("fsspec", "s3" if path.startswith("s3:") else "remote", "a URL", path=path)
    with wrap_store_errors(path):
        fs, root = fsspec.core.url_to_fs(path)
    return fs, root


@contextmanager
def wrap_store_errors(path: str) -> Iterator[None]:
    """Turns whatever the library of a protocol raises into an InputError: each library has its own errors."""
    try:
        yield
    except (KtraceError, FileNotFoundError):
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise InputError(
            f"can't be reached: {reason}",
            path=path,
            remedy="check the address, the credentials, and that its package is installed (s3fs, gcsfs)",
        ) from error
