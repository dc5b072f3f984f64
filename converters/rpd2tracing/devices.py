"""Finds the processes in rpd2tracing's JSON that are GPUs, by their names."""

from __future__ import annotations

import re

from ktrace.input.source import Source

_GPU = re.compile(
    rb'"process_name"\s*,\s*"ph"\s*:\s*"M"\s*,\s*"pid"\s*:\s*"?(\d{1,18})"?\s*,'
    rb'\s*"args"\s*:\s*\{\s*"name"\s*:\s*"GPU'
)

#: The first bytes, which contain the names of processes.
_HEAD = 1 << 20


def gpus_of(source: Source) -> dict[int, int]:
    """Returns pid -> GPU; a GPU has the number of its process."""
    with source.open(quiet=True) as stream:
        head = stream.read(_HEAD)
    return {int(pid): int(pid) for pid in _GPU.findall(head)}
