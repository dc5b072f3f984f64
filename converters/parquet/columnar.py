"""Reads some columns, or some rows, of canonical Parquet."""

from __future__ import annotations

from .reader import read

__all__ = ["read"]
