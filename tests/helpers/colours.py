"""What colours are to the eye: light, contrast, the space in which distances are those that people see."""

from __future__ import annotations

from typing import Any

import numpy as np


def hexadecimal(colour: str) -> np.ndarray[Any, Any]:
    return np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)])


def linear(colour: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """sRGB of 0 to 255 as light (IEC 61966-2-1)."""
    part = colour / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def luminance(colour: np.ndarray[Any, Any]) -> float:
    return float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour))


def contrast(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def lab(light: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """CIE L*a*b* under D65."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(
        light, 0, 1
    )
    x, y, z = np.cbrt(xyz / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
