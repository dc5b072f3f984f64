"""A report of Nsight Compute (`.ncu-rep`): launches with all their metrics, advice from the rules, PM samples.

    4E 56 52 00   length  file header       1: version (7)
    length  block header                    1, 2, 7, 8, 9: numbers of entries   4: strings   5: bytes of the payload
      length  source, length  launch, ...   the payload
    length  block header ...

All lengths are 32-bit, little endian; each precedes a protobuf message. NVIDIA documents the container (Customization
Guide, "Report File Format") and ships the definitions of the messages with the product. Nsight Compute 2022 to 2024
write version 7.

A metric's name is the index of a string, which may be in a later block, so all strings are read first.
A launch has neither a start nor an end. Samples of PM sampling have times, but from other replays of the kernel.
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score

_MAGIC = b"NVR\0"


def probe(sample: Sample) -> Match | None:
    """MAGIC for the first bytes, NEAR for the name alone."""
    if sample.head.startswith(_MAGIC):
        return Match(Score.MAGIC, "begins with 'NVR', like reports of Nsight Compute")
    if not sample.name.lower().endswith(".ncu-rep") or sample.listing is not None:
        return None
    return Match(Score.NEAR, "is named '.ncu-rep', but doesn't begin with 'NVR'; copy it again")


FORMAT = Format(
    "ncu-rep",
    "Nsight Compute report",
    patterns=("*.ncu-rep",),
    probe=probe,
    read="ktrace.converters.ncu_rep.reader:read",
    prose=True,
    binary=True,
)
