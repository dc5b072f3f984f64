"""Tests as rows: a range with the time of a repetition, and a metric with tokens/s."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

from ktrace.kit.text.numbers import number
from ktrace.model.fitting import as_int64
from ktrace.model.row_builder import RowBuilder

#: Times are below this: 2^62 ns.
_LIMIT = 1 << 62

#: Short names of settings, as Markdown has them, and the values that it leaves out: those of a call without options.
#: `flash_attn` was a yes or no until 2025, and is -1, 0 or 1 since then.
_SETTINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "n_gpu_layers": ("ngl", ()),
    "n_cpu_moe": ("n_cpu_moe", ("0",)),
    "n_threads": ("threads", ()),
    "cpu_mask": ("cpu_mask", ("0x0",)),
    "cpu_strict": ("cpu_strict", ("0",)),
    "poll": ("poll", ("50",)),
    "n_batch": ("n_batch", ("2048",)),
    "n_ubatch": ("n_ubatch", ("512",)),
    "type_k": ("type_k", ("f16",)),
    "type_v": ("type_v", ("f16",)),
    "main_gpu": ("main_gpu", ("0",)),
    "split_mode": ("sm", ("layer",)),
    "no_kv_offload": ("nkvo", ("0",)),
    "flash_attn": ("fa", ("-1",)),
    "devices": ("dev", ("auto",)),
    "tensor_split": ("ts", ("0.00",)),
    "tensor_buft_overrides": ("ot", ("none",)),
    "use_mmap": ("mmap", ("1",)),
    "load_mode": ("lm", ("mmap",)),
    "embeddings": ("embd", ("0",)),
    "no_op_offload": ("nopo", ("0",)),
    "no_host": ("noh", ("0",)),
    "fit_target": ("fitt", ("0",)),
    "fit_min_ctx": ("fitc", ("0",)),
}

#: Fields that aren't arguments: they become columns.
_FIGURES = ("model_type", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts")

#: Fields of which facts are made, if all tests have the same value.
_FACTS = ("build_commit", "build_number", "cpu_info", "gpu_info", "backends", "model_type")

_RATE = re.compile(r"(?P<avg>\d+(?:\.\d+)?) ± (?P<stddev>\d+(?:\.\d+)?|-?nan)")
_APIS = {"CUDA": "cuda", "ROCm": "hip", "Vulkan": "vulkan", "Metal": "metal", "MTL": "metal", "OpenCL": "opencl"}


class Results:
    """Adds the rows of tests, and at the end the facts in which all tests agree."""

    def __init__(self, rows: RowBuilder) -> None:
        self._rows = rows
        self._seen: dict[str, set[str]] = {}
        self._has_times = False

    def see(self, fields: dict[str, Any]) -> None:
        """Notes the values of which facts may be made."""
        for field in _FACTS:
            seen = self._seen.setdefault(field, set())
            if (value := str(fields.get(field, ""))) and len(seen) < 2:
                seen.add(value)

    def add(self, test: dict[str, Any]) -> str | None:
        """Adds a test with the fields of CSV, JSON or SQL; returns what is wrong with another record."""
        prompt, gen, depth = (_whole(test.get(field, 0)) for field in ("n_prompt", "n_gen", "n_depth"))
        if prompt is None or gen is None or depth is None or not (prompt or gen):
            return "no n_prompt and n_gen"
        rate = {column: _finite(test.get(field)) for column, field in (("avg", "avg_ts"), ("stddev", "stddev_ts"))}
        if rate["avg"] is None:
            return "no avg_ts"
        self.see(test)
        name = "+".join(f"{what}{n}" for what, n in (("pp", prompt), ("tg", gen)) if n)
        name += f" @ d{depth}" if depth else ""
        model, ts = test.get("model_type"), _time(test.get("test_time"))
        self._has_times = self._has_times or ts is not None
        place: dict[str, Any] = {"scope": _scope(model, [str(test.get("backends", "")), *_settings(test)]), "table": 0}
        took = _durations(test)
        args = {key: value for key, value in test.items() if key not in (*_FIGURES, "samples_ts")}
        parent = None
        if took:
            parent = self._rows.summary("range", name, unit="ns", ts=ts, args=args, **took, **place)
            args = {}
        if isinstance(samples := test.get("samples_ts"), list):
            args["samples_ts"] = samples
            place["count"] = len(samples)
        self._rows.summary(
            "metric", name, metric="tokens/s", unit="tokens/s", ts=ts, parent=parent, args=args, **rate, **place
        )
        return None

    def add_printed(self, name: str, model: str, rate: str, cells: dict[str, str], table: int) -> str | None:
        """Adds a row of Markdown, `cells` are the others by their headings; returns what is wrong with another row."""
        found = _RATE.fullmatch(rate.strip())
        if not found or not name:
            return "no tokens/s" if name else "no test"
        backend = cells.get("backend", "")
        self.see({"model_type": model, "backends": backend})
        settings = [f"{head} {cell}" for head, cell in cells.items() if head not in ("size", "params", "backend")]
        place: dict[str, Any] = {"scope": _scope(model, [backend, *settings]), "table": table, "args": cells}
        figures = {"avg": float(found["avg"]), "stddev": _finite(found["stddev"])}
        self._rows.summary("metric", name, metric="tokens/s", unit="tokens/s", **place, **figures)
        return None

    def facts(self) -> None:
        """Adds the build, the processor, the devices and the model, each if all tests have the same."""
        same = {field: next(iter(seen)) for field, seen in self._seen.items() if len(seen) == 1}
        version = " ".join(filter(None, (same.get("build_commit"), f"({same.get('build_number')})")))
        facts = {
            "tool": "llama-bench",
            "version": version if {"build_commit", "build_number"} <= same.keys() else None,
            "model": same.get("model_type"),
        }
        self._rows.fact("source", facts={key: value for key, value in facts.items() if value})
        if self._has_times:
            self._rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
        if "cpu_info" in same:
            self._rows.fact("host", facts={"cpu": same["cpu_info"]})
        api = _APIS.get(same.get("backends", ""))
        for device, name in enumerate(filter(None, same.get("gpu_info", "").split(", "))):
            self._rows.fact("device", device=device, name=name, facts={"api": api} if api else {})


def _scope(model: Any, settings: list[str]) -> list[str]:
    return [text for text in (model if isinstance(model, str) else "", ", ".join(filter(None, settings))) if text]


def _settings(test: dict[str, Any]) -> list[str]:
    """The settings that tell tests of one run apart, as Markdown names them."""
    found = []
    for field, (short, usual) in _SETTINGS.items():
        value = test.get(field)
        text = str(int(value)) if isinstance(value, bool) else str(value)
        if value is not None and text not in usual:
            found.append(f"{short} {text}")
    return found


def _durations(test: dict[str, Any]) -> dict[str, Any]:
    """The columns of the time of a repetition in ns: mean and deviation, with JSON also count, total, least, most."""
    avg, stddev = _whole(test.get("avg_ns")), _whole(test.get("stddev_ns"))
    if avg is None:
        return {}
    took: dict[str, Any] = {"avg": float(avg), "stddev": None if stddev is None else float(stddev)}
    samples = test.get("samples_ns")
    if isinstance(samples, list) and samples and None not in (known := [_whole(one) for one in samples]):
        whole = [one for one in known if one is not None]
        took |= {"count": len(whole), "total": float(sum(whole)), "min": float(min(whole)), "max": float(max(whole))}
    return took


def _whole(value: Any) -> int | None:
    return as_int64(value, 0, _LIMIT - 1)


def _finite(value: Any) -> float | None:
    found = number(str(value)) if type(value) in (int, float, str) else None
    return float(found) if found is not None and found.is_finite() else None


def _time(text: Any) -> int | None:
    """The unix time in ns of a text such as 2025-04-24T11:57:09Z."""
    try:
        moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except (TypeError, ValueError):
        return None
    return int(moment.timestamp()) * 1_000_000_000
