"""A roofline: what each operator achieves, below what the device can do; both axes are logarithmic.

TFLOP/s     ____________ bf16      the roof: the memory's rate times FLOP/byte, up to the peak of the type
          ／  o   O
        ／ o                       an operator, with a circle as large as its time
      ／    FLOP/byte
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ktrace.page.markup import tag

#: The largest and the smallest circle, in pixels.
_LARGEST, _SMALLEST = 16.0, 4.0


@dataclass(frozen=True)
class Point:
    """An operator: FLOPs per byte, TFLOP/s, its part of the time of all operators (0 to 1), its figures in words."""

    intensity: float
    tflops: float
    share: float
    title: str
    colour: str = "k1"


def roofline(points: Sequence[Point], ceilings: dict[str, float], gb_per_s: float | None) -> Markup:
    """The chart; `ceilings` are the peak TFLOP/s by type, `gb_per_s` the rate of the memory, None if it isn't known.

    Raises ValueError without points.
    """
    across = _Axis([point.intensity for point in points] + [1.0, 1000.0])
    up = _Axis([point.tflops for point in points] + list(ceilings.values()))
    drawn: list[object] = [*_grid(across, up)]
    for name, peak in ceilings.items():
        begin = 1e3 * peak / gb_per_s if gb_per_s else across.lowest
        line = {"x1": across.at(max(begin, across.lowest)), "x2": "100%", "y1": up.down(peak), "y2": up.down(peak)}
        drawn.append(tag("line", class_="mark", **line))
        drawn.append(tag("text", f"{name} {peak:,g}", x="100%", y=up.down(peak), dy="-4", text_anchor="end"))
    if gb_per_s:
        drawn.append(_slope(across, up, gb_per_s, max(ceilings.values(), default=up.highest)))
    for point in sorted(points, key=lambda point: -point.share):
        radius = max(_SMALLEST, _LARGEST * math.sqrt(point.share))
        place = {"cx": across.at(point.intensity), "cy": up.down(point.tflops), "r": f"{radius:.1f}"}
        drawn.append(tag("circle", tag("title", point.title), class_=f"{point.colour} dot", **place))
    label = "; ".join(point.title.replace("\n", ", ") for point in points[:10])
    return tag("svg", drawn, class_="chart columns", width="100%", role="img", aria_label=label)


class _Axis:
    """A logarithmic axis that has room for all values."""

    def __init__(self, values: Sequence[float]) -> None:
        known = [value for value in values if value > 0]
        self._low = math.floor(math.log10(min(known)) - 0.1)
        self._high = max(math.log10(max(known)) + 0.25, self._low + 1)
        self.lowest, self.highest = 10.0**self._low, 10.0**self._high

    def _place(self, value: float) -> float:
        return 100 * (math.log10(value) - self._low) / (self._high - self._low)

    def at(self, value: float) -> str:
        """The place from the left."""
        return f"{self._place(value):.2f}%"

    def down(self, value: float) -> str:
        """The place from the top."""
        return f"{100 - self._place(value):.2f}%"

    def decades(self) -> list[float]:
        """The powers of ten on the axis."""
        return [10.0**power for power in range(self._low, math.floor(self._high) + 1)]


def _grid(across: _Axis, up: _Axis) -> list[Markup]:
    """Lines and labels at powers of ten."""
    drawn = []
    for value in up.decades():
        y = up.down(value)
        drawn.append(tag("line", class_="grid", x1="0", x2="100%", y1=y, y2=y))
        drawn.append(tag("text", f"{value:g}", class_="tick", x="-8", y=y, dy="4", text_anchor="end"))
    for value in across.decades():
        x = across.at(value)
        drawn.append(tag("line", class_="grid", x1=x, x2=x, y1="0", y2="100%"))
        drawn.append(tag("text", f"{value:g}", class_="tick", x=x, y="100%", dx="3", dy="-4"))
    return drawn


def _slope(across: _Axis, up: _Axis, gb_per_s: float, highest: float) -> Markup:
    """The roof of the memory, from the left or the bottom up to the highest peak."""
    begin = max(across.lowest, 1e3 * up.lowest / gb_per_s)
    end = min(across.highest, 1e3 * highest / gb_per_s)
    line = {"x1": across.at(begin), "x2": across.at(end)}
    line |= {"y1": up.down(begin * gb_per_s / 1e3), "y2": up.down(end * gb_per_s / 1e3)}
    return tag("line", tag("title", f"memory: {gb_per_s:,g} GB/s"), class_="mark", **line)
