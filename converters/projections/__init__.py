"""Logs of Projections, the tracing of Charm++ (-tracemode projections), which DARMA's vt writes, too: a folder.

    app.sts         names: VERSION 11.0, CHARE 7 "Ring" 1, ENTRY CHARE 151 "pass(int hop)" 7 3, EVENT 40 solve, END
    app.0.log.gz    what PE 0 did, a record in each line:

        PROJECTIONS-RECORD 985
        1 5 151 81705 17 0 64 3              sends to entry 151 at 81,705 us; event 17 of PE 0, 64 bytes, took 3 us
        2 5 151 81810 17 0 64 0 4 81629      begins to execute what that sent, at element 4
        3 0 151 81902 17 0 0 81634           ends it; CPU time 81,634 us
        14 81902 0    15 81950 0             idle from, idle to

Numbers follow each other as the type, the first one, says. Times are us since tracing began, on the clock of each PE.

Facts: trace-projections.C, trace-common.h and trace-common.C of Charm++ (versions 5 to 11 of the log); Projections'
GenericLogReader.java and StsReader.java, which read the same; vt's trace.cc for its version 7.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from ktrace.kit import Format, Match, Sample, Score

#: A log of a PE, also in one of the folders of +trace-subdirs; the names' file beside them isn't that of summaries.
_LOG = re.compile(r"(?:(?P<folder>.*)\.projdir\.\d+/)?(?P<stem>[^/]+)\.(?P<pe>\d{1,9})\.log(?:\.gz)?")
_STS = re.compile(r"(?P<stem>.+)(?<!\.sum)\.sts(?:\.gz)?")

HEADER = "PROJECTIONS-RECORD"


def runs(listing: Sequence[str]) -> dict[str, list[tuple[int, str]]]:
    """The runs of a folder by the files with their names, each with its logs in the order of their PEs."""
    names = {match["stem"]: path for path in listing if (match := _STS.fullmatch(path))}
    logs: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for path in listing:
        match = _LOG.fullmatch(path)
        if match and (sts := names.get(match["folder"] or match["stem"])):
            logs[sts].append((int(match["pe"]), path))
    return {sts: sorted(match) for sts, match in logs.items()}


def probe(sample: Sample) -> Match | None:
    """DIALECT for a folder with names and logs; NEAR for one of these files alone."""
    if sample.listing is not None:
        listing = runs(sample.listing)
        return Match(Score.DIALECT, f"has {next(iter(listing))} and logs of its PEs") if listing else None
    if sample.head.startswith((HEADER.encode(), b"PROJECTIONS_ID")):
        return Match(Score.NEAR, "is one file of Projections' logs, which are read as a folder: name the folder")
    return None


FORMAT = Format(
    "projections",
    "Charm++ Projections logs (.sts and .log), a folder",
    patterns=("*.sts",),
    probe=probe,
    read="ktrace.converters.projections.reader:read",
    words=("projections-record", "projections_id"),
    reads_folders=True,
)
