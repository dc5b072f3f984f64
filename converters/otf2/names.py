"""The name of a trace for OTF2's library, which opens all files of the trace by their names itself."""

from __future__ import annotations

import weakref
from pathlib import Path

from ktrace.input.companions import companions
from ktrace.input.files import is_confined, open_file
from ktrace.input.limits import copied
from ktrace.scratch import new_folder

from . import FORMAT


def safe_name(anchor: Path, owner: object) -> Path:
    """The anchor of a trace all of whose files are regular ones, for as long as there is its owner.

    Where not every file may be read, it is a copy: names may lead elsewhere by the time that the library opens them.
    Raises OSError and InputError, which name the file.
    """
    folder = None
    if is_confined():
        held = new_folder()
        weakref.finalize(owner, held.remove)
        folder = held.path
    for path in (anchor, *companions(anchor, FORMAT.beside)):
        if path.is_dir():
            continue
        with open_file(path) as file:
            if folder:
                copy = folder / path.relative_to(anchor.parent)
                copy.parent.mkdir(exist_ok=True)
                with copy.open("wb") as target:
                    copied(file, target, str(folder), str(path))
    return folder / anchor.name if folder else anchor
