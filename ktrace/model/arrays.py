"""Names for the types of numpy arrays, for annotations; and which types of Arrow are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bools = npt.NDArray[np.bool_]
Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]
UInt16 = npt.NDArray[np.uint16]
UInt64 = npt.NDArray[np.uint64]
Float64 = npt.NDArray[np.float64]
#: Rows with named fields.
Structured = npt.NDArray[np.void]
#: Integers of any width.
Integers = npt.NDArray[np.integer]
#: Floats of any width.
Floats = npt.NDArray[np.floating]
#: Values of any one numpy type.
Scalars = npt.NDArray[np.generic]
AnyArray = npt.NDArray[Any]


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type has integers or floats."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


#: What no time and no size that is meant reaches, so that sums and differences of some stay within int64.
_GREATEST = 1 << 60


def to_int64(numbers: AnyArray) -> Int64:
    """Numbers as whole ones: 0 for NaN, the greatest for infinity and all beyond 2^60."""
    whole: Int64 = np.clip(np.nan_to_num(numbers, nan=0.0), -_GREATEST, _GREATEST).astype(np.int64)
    return whole
