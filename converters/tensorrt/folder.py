"""A folder with the exports of one run: the layers' descriptions are joined to their times.

    resnet.profile.json or resnet.onnx.engine.profile.json     read second: each layer gets its description
    resnet.graph.json                                          read first
    resnet.timing.json                                         the queries

trex names the files like this; other files of the folder are left out, and reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source, file_in

_NAME = re.compile(r"(?P<run>[^/]+)\.(?P<what>graph|profile|timing)\.json(?:\.gz|\.zst)?")

#: The order in which the files are read.
_ORDER = ("graph", "profile", "timing")


def own_files(listing: Iterable[str]) -> dict[str, str]:
    """Returns what -> file of a folder with one run; nothing for another folder, or one with several runs."""
    found = [match for path in listing if (match := _NAME.fullmatch(path))]
    files = {match["what"]: match[0] for match in found}
    one = len({match["run"] for match in found}) == 1 and len(files) == len(found)
    return {what: files[what] for what in _ORDER if what in files} if one and len(files) > 1 else {}


def in_order(folder: Source, conversion: Conversion) -> Iterator[tuple[str, Source]]:
    """Yields the files in the order in which they are read, each with its name; reports the other ones."""
    listing = folder.sample().listing or ()
    own = own_files(listing)
    for path in listing:
        if path not in own.values():
            conversion.report.issue("no-trace", path)
    for path in own.values():
        yield path, file_in(folder, path)
