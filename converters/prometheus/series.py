"""Where the samples of a series belong: a device of a host, with a unit, and the labels that tell it from others.

    DCGM_FI_DEV_POWER_USAGE{gpu="0", modelName="NVIDIA A100", Hostname="node-a", pod="train-1"}
        ──►  device 0, host node-a, unit W, track pod="train-1"

Labels of GPUs are those of dcgm-exporter (`gpu`, `UUID`, `modelName`, `Hostname`), of AMD's device-metrics-exporter
(`gpu_id`, `card_model`) and of exporters around nvidia-smi (`uuid`, `minor_number`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ktrace.model.json_text import dump_json

NAME = "__name__"

#: What numbers a device, in the order in which they count; what identifies one without a number; what else it says.
_NUMBERS = ("gpu", "gpu_id", "gpu_index", "minor_number")
_DEVICE = re.compile(r"(?:nvidia|card|accel|neuron)(\d{1,4})")
_IDS = ("UUID", "uuid", "gpu_uuid", "pci_bus_id")
_MODELS = ("modelName", "card_model", "card_series", "gpu_name")
_FACTS = ("DCGM_FI_DRIVER_VERSION", "driver_version", "serial_number")
_HOSTS = ("Hostname", "hostname", "nodename", "node", "instance")
_JOB = "job"
_NUMBER = re.compile(r"\d{1,9}")
_PORT = re.compile(r":\d{1,5}$")

#: Units by the end of a metric's name, as Prometheus' naming rules have them.
_SUFFIX = re.compile(
    r"_(bytes|seconds|milliseconds|microseconds|celsius|watts|milliwatts|joules|millijoules|hertz|volts|ratio|percent)(?:_total|_sum)?$"
)
_UNITS = {
    "bytes": "B",
    "seconds": "s",
    "milliseconds": "ms",
    "microseconds": "us",
    "celsius": "C",
    "watts": "W",
    "milliwatts": "mW",
    "joules": "J",
    "millijoules": "mJ",
    "hertz": "Hz",
    "volts": "V",
    "percent": "%",
}

#: Units in the words of help: "Power draw (in W)."
_HELP = re.compile(r"\(in ([%°A-Za-z/]{1,8})\)")

#: Units of DCGM's fields, where no help comes with them: dcgm-exporter's default-counters.csv.
_DCGM = (
    (re.compile(r"DCGM_FI_DEV_(?:POWER_USAGE|POWER_MGMT_LIMIT\w*|ENFORCED_POWER_LIMIT)"), "W"),
    (re.compile(r"DCGM_FI_DEV_\w+_TEMP"), "C"),
    (re.compile(r"DCGM_FI_DEV_\w+_CLOCK"), "MHz"),
    (re.compile(r"DCGM_FI_DEV_\w+_UTIL"), "%"),
    (re.compile(r"DCGM_FI_DEV_FB_(?:USED|FREE|TOTAL|RESERVED)"), "MiB"),
    (re.compile(r"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"), "mJ"),
)


@dataclass(frozen=True)
class Series:
    """A series: the columns of its counters; what its labels say of the device."""

    name: str
    unit: str
    columns: dict[str, Any]
    device_name: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def unit_of(name: str, help: str | None, unit: str | None) -> str:
    """The unit of a metric: stated, in its help, in its name, or that of DCGM's field; "" where nothing says it."""
    if unit:
        return _UNITS.get(unit, unit)
    if help and (match := _HELP.search(help)):
        return match[1]
    if match := _SUFFIX.search(name):
        return _UNITS.get(match[1], "")
    return next((one for pattern, one in _DCGM if pattern.fullmatch(name)), "")


class Devices:
    """The numbers of devices that have none: their places in the order in which they come, on each host."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | None, str], int] = {}

    def series(self, labels: Mapping[str, str], unit: str) -> Series:
        """The series with these labels."""
        left = {name: value for name, value in labels.items() if value and name != NAME}
        host = next((_PORT.sub("", left[name]) for name in _HOSTS if name in left), None)
        device = self._device(left, host)
        used = {*_HOSTS, _JOB}
        facts: dict[str, Any] = {}
        model = None
        if device is not None:
            used |= {*_IDS, *_MODELS, *_FACTS}
            used |= {name for name in (*_NUMBERS, "device") if left.get(name) == str(device) or name == "device"}
            model = next((left[name] for name in _MODELS if name in left), None)
            facts = {name.lower(): left[name] for name in (*_IDS, *_FACTS) if name in left}
        rest = ", ".join(f"{name}={dump_json(value)}" for name, value in sorted(left.items()) if name not in used)
        columns = {"host": host, "device": device, "track": rest or None, "cat": left.get(_JOB)}
        return Series(labels.get(NAME) or "[no name]", unit, columns, model, facts)

    def _device(self, labels: Mapping[str, str], host: str | None) -> int | None:
        """The number of the device that a series is of, None if it is of none."""
        for name in _NUMBERS:
            if _NUMBER.fullmatch(labels.get(name, "")):
                return int(labels[name])
        if match := _DEVICE.fullmatch(labels.get("device", "")):
            return int(match[1])
        identity = next((labels[name] for name in _IDS if name in labels), None)
        return None if identity is None else self._known.setdefault((host, identity), len(self._known))
