"""Turns the members of a Kineto document other than its events into facts of the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]

#: Key of deviceProperties -> reserved fact of a device.
_DEVICE_FACTS = {
    "totalGlobalMem": "memory",
    "numSms": "sm_count",
    "smCount": "sm_count",
    "uuid": "uuid",
    "pciBusId": "bus_id",
}

#: Words in a device's name -> its vendor and the API that its traces record.
_VENDORS = (
    (("nvidia", "tesla", "geforce", "quadro", "a100", "h100", "v100", "gh200", "b200"), "NVIDIA", "cuda"),
    (("amd", "radeon", "instinct", "gfx"), "AMD", "hip"),
    (("intel", "data center gpu max", "arc("), "Intel", "level_zero"),
)

#: First letters of a version among the members of a document -> the API of all its devices (a device's name may be
#: empty, and one that works may not be among the properties).
_VERSIONS = ((("hip_", "roctracer_", "rocprofiler_"), "hip"), (("cuda_", "cupti_"), "cuda"))


def facts_of(key: str, value: Any) -> Iterator[Row]:
    """Yields the catalog rows, without source and id, for one member of the document.

    `value` is the member's value, with floats as JSON decodes them.
    """
    if key in ("deviceProperties", "computeProperties") and isinstance(value, list):
        for properties in value:
            if isinstance(properties, dict):
                yield from _device(properties)
    elif key == "distributedInfo" and isinstance(value, dict):
        known = {name: value[name] for name in ("rank", "world_size") if type(value.get(name)) is int}
        yield {"entity": "source", "facts": known | {key: {k: v for k, v in value.items() if k not in known}}}
    elif key == "baseTimeNanoseconds" and type(value) is int:
        yield clock("session", unix_ns=value)
    elif key == "host_name" and isinstance(value, str):
        yield {"entity": "host", "name": value, "facts": {}}
        yield {"entity": "source", "facts": {key: value}}
    else:
        api = next((api for words, api in _VERSIONS if key.startswith(words)), None)
        yield {"entity": "source", "facts": {key: value} | ({"api": api} if api else {})}


def clock(kind: str, *, unix_ns: int) -> Row:
    """The anchor of the main clock: the unix time of its 0."""
    return {"entity": "clock", "facts": {"kind": kind, "at_ns": 0, "unix_ns": unix_ns}}


def _device(properties: dict[str, Any]) -> Iterator[Row]:
    """Yields a device: reserved facts under the model's names, all others under the source's."""
    ordinal = properties.get("id")
    name = properties.get("name")
    facts: dict[str, Any] = {}
    for words, vendor, api in _VENDORS:
        if isinstance(name, str) and any(word in name.lower() for word in words):
            facts |= {"api": api, "vendor": vendor}
            break
    major, minor = (properties.get(f"compute{part}", properties.get(part.lower())) for part in ("Major", "Minor"))
    if major is not None and minor is not None:
        facts["compute_capability"] = f"{major}.{minor}"
    used = (
        {"id", "name", "computeMajor", "computeMinor", "major", "minor"}
        if "compute_capability" in facts
        else {"id", "name"}
    )
    for key, value in properties.items():
        if key not in used:
            facts[_DEVICE_FACTS.get(key, key)] = value
    if type(ordinal) is not int:
        yield {"entity": "source", "facts": {"deviceProperties": [properties]}}
        return
    yield {"entity": "device", "device": ordinal, "name": name if isinstance(name, str) else None, "facts": facts}
