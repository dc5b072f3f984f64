"""What work can be grouped by, and the keys of groups that need a name of their own."""

from __future__ import annotations

#: What work can be grouped by.
BY = ("kernel", "operation", "library", "precision", "layer", "stream", "device", "rank", "step", "source", "run")

#: Kernels of which no rule says the operation, by their whole names: in `groups` only where it is asked for.
UNCLASSIFIED = "unclassified"

#: The key of work of which the column isn't known.
OTHER = "other"

#: The key of all that has an operation or needs none, where kernels without one are asked for.
CLASSIFIED = ""
