"""What the stats of planes and the names of lines state about the source, its devices, threads and streams."""

from __future__ import annotations

from typing import Any

from ktrace.kit.xla.lines import HOST, Device, Placed, What
from ktrace.model.row_builder import RowBuilder

from .layout import Line, Plane

METADATA, TASK = "/host:metadata", "Task Environment"

#: Stats of a device's plane -> the facts of the model.
_DEVICE = {"device_vendor": "vendor", "core_count": "sm_count", "memory_size": "memory", "gpu_device_name": "name"}
_APIS = {"nvidia": "cuda", "amd": "hip"}

#: At most this many modules are named.
MODULES = 1000


def add_device(rows: RowBuilder, host: str | None, device: Device, stats: dict[str, Any]) -> None:
    """Adds a device with its facts; a part of a device adds them to the whole."""
    facts = {_DEVICE.get(name, name): value for name, value in stats.items()}
    if api := _APIS.get(str(facts.get("vendor", "")).lower()):
        facts["api"] = api
    major, minor = facts.get("compute_cap_major"), facts.get("compute_cap_minor")
    if isinstance(major, int) and isinstance(minor, int):
        facts["compute_capability"] = f"{major}.{minor}"
        del facts["compute_cap_major"], facts["compute_cap_minor"]
    name = facts.pop("name", None) or f"{device.type} {device.number}"
    if device.part:
        facts = {f"{device.part}: {key}": value for key, value in facts.items()}
    elif device.type != "GPU":
        facts["kind"] = device.type
    rows.fact("device", host=host, device=device.number, name=None if device.part else name, facts=facts)


def add_lines(rows: RowBuilder, plane: Plane, placed: list[Placed], host: str | None, pid: int | None) -> None:
    """Adds the names of threads and streams, and of the process."""
    if pid is not None and plane.name == HOST:
        rows.fact("process", host=host, pid=pid, name=HOST)
    for order, (line, place) in enumerate(zip(plane.lines, placed, strict=True)):
        if place.what == What.STREAM and not place.track:
            rows.fact("stream", host=host, device=place.device, stream=place.stream, name=_title(line))
        elif place.what == What.THREAD and place.track is None:
            rows.fact("thread", host=host, pid=pid, tid=place.tid, name=_title(line), order=order)


def source_facts(stats: dict[str, Any], modules: list[str]) -> dict[str, Any]:
    """The facts of the source from the stats of the planes that describe it."""
    facts = {"tool": "XLA profiler"} | stats
    for name, tool in (("jax_version", "JAX"), ("tensorflow_version", "TensorFlow")):
        if facts.get(name):
            facts |= {"tool": tool, "version": facts.pop(name)}
            break
    return facts | ({"hlo_modules": modules} if modules else {})


def _title(line: Line) -> str:
    return line.display_name or line.name
