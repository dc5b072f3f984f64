"""Run, host and rank in the path of a file, and the folders of a dataset.

    runs/2026-11-20/node7/rank3.json.gz   found by runs/*/*/rank*.json.gz
         └── run ────────┘     └ 3
    run_name=2026-11-20%2Fnode7/host_name=__HIVE_DEFAULT_PARTITION__/rank=3/

The folders are not called `run` and `host`: these are columns of the model, and readers of such folders would show
the folder's value in their stead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from ktrace.input.compression import PACKED

#: The name of an unknown value, by Hive's convention.
UNKNOWN = "__HIVE_DEFAULT_PARTITION__"

#: rank3, rank_3, rank-3 or r3 as a word of a name.
_RANK = re.compile(r"(?:^|[^a-z0-9])r(?:ank)?[ _=-]?(\d{1,9})(?![a-z0-9])", re.I)

#: A folder with key and value: host=node7.
_SAID = re.compile(r"(run|host|rank)(?:_name)?=(.+)", re.I)

#: Names of the files of PyTorch's tensorboard_trace_handler: host_pid.time.pt.trace.json.
_TORCH = re.compile(r"(.+)_\d+\.\d+\.pt\.trace\.json")


#: What the folders of a dataset can be by, and the name of each folder.
FOLDERS = {"run": "run_name", "host": "host_name", "rank": "rank"}

#: What they are by, and their order, unless something else is asked for.
BY = ("run", "host", "rank")


@dataclass(frozen=True)
class Place:
    """Run, host and rank of some rows; None if unknown."""

    run: str | None = None
    host: str | None = None
    rank: int | None = None

    def folder(self, by: Sequence[str] = BY) -> str:
        """Returns the folder in a dataset, percent-encoded as in Hive's layout."""
        named = [(FOLDERS[key], getattr(self, key)) for key in by]
        return "/".join(
            f"{key}={UNKNOWN if value in (None, '') else quote(str(value), safe='')}" for key, value in named
        )

    @classmethod
    def common(cls, places: Sequence[Place]) -> Place:
        """Returns what all the places agree on; the rest is unknown."""
        values = {key: {getattr(place, key) for place in places} for key in BY}
        return cls(**{key: next(iter(found)) for key, found in values.items() if len(found) == 1})


def place_of(inside: str) -> Place:
    """Returns run, host and rank in a path below the folder of a pattern: `2026-11-20/rank3.json.gz`.

    The run are the folders that say neither host nor rank, None where there is none.
    """
    *folders, name = inside.split("/")
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    said: dict[str, str] = {}
    rest = []
    for folder in folders:
        if match := _SAID.fullmatch(folder):
            said[match[1].lower()] = match[2]
        elif not _RANK.fullmatch(folder):
            rest.append(folder)
    ranks = [said["rank"]] if said.get("rank", "").isdigit() else []
    ranks += [match[1] for part in (name, *reversed(folders)) if (match := _RANK.search(part))]
    torch = _TORCH.fullmatch(name)
    host = said.get("host") or (torch[1] if torch and not _RANK.search(torch[1]) else None)
    return Place(said.get("run") or "/".join(rest) or None, host, int(ranks[0]) if ranks else None)
