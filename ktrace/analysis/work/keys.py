"""What work can be grouped by, and the keys of special groups."""

from __future__ import annotations

#: What work can be grouped by.
BY = ("kernel", "operation", "library", "precision", "layer", "stream", "device", "rank", "step", "source", "run")

#: Groups kernels without an operation by their whole names; in `groups` only if asked for.
UNCLASSIFIED = "unclassified"

#: Groups by kernel and grid, for `ktrace diff`, which tests launches of one grid; in `groups` only if asked for. What
#: stands between both in a key.
GRID, OF_GRID = "grid", " grid "

#: The key of work whose column isn't known.
OTHER = "other"

#: The key of work that has an operation or needs none, when grouping by UNCLASSIFIED.
CLASSIFIED = ""

#: The begin of a note on criteria that an input has no values of.
NOT_KNOWN = "This input has no "

#: What a note says of a source whose calls, and perhaps work, are lost.
LACKS = " lacks records: "
