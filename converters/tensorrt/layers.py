"""Layers of an engine as rows of the model."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ktrace.kit.text.headings import cell_quantity

#: Words in the name of a layer that copies between host and device -> its direction.
_COPIES = {"HostToDeviceCopy": "HtoD", "DeviceToHostCopy": "DtoH", "DeviceToShapeHostCopy": "DtoH"}


def kind_of(name: str) -> tuple[str, str | None]:
    """Returns the kind of a layer's work, and the direction of a copy.

    A reformatting copy is a kernel: it changes the layout of a tensor on the device.
    """
    way = next((way for word, way in _COPIES.items() if word in name), None)
    return ("memcpy", way) if way else ("kernel", None)


def milliseconds(value: Any) -> float | None:
    """Returns ms as ns; None for anything but a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    found = cell_quantity(str(value))
    return float(found.number * 10**6) if found and not found.unit and found.number.is_finite() else None
