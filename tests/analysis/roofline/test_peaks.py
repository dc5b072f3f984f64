"""The table of peak rates: its form, its figures, and tables of users."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, SAMPLES
from fork_server import program

from ktrace.analysis.questions.roofline.peaks import RATED, peaks_of, published
from ktrace.errors import UsageError

TABLE = json.loads((ROOT / "schema/peaks.json").read_text("utf-8"))


def test_each_entry_has_a_source_and_known_keys() -> None:
    assert TABLE["ktrace_peaks"] == "1.0"
    for device in TABLE["devices"]:
        assert device.keys() <= {"name", "about", "tflops", "gb_per_s", "source"}
        assert device["source"] and device["about"] and device["tflops"].keys() <= {*RATED}
        re.compile(device["name"])
        assert all(0 < rate < 20_000 for rate in device["tflops"].values())
        assert 100 < device.get("gb_per_s", 1000) < 20_000
    assert len({device["about"] for device in TABLE["devices"]}) == len(TABLE["devices"])


def test_narrower_types_are_no_slower() -> None:
    """A figure with sparsity among those without would be twice as large as its neighbours."""
    for device in TABLE["devices"]:
        rates = device["tflops"]
        assert rates.get("fp16", 0) == rates.get("bf16", rates.get("fp16", 0)) or "fp16" not in rates, device["about"]
        order = [rates[name] for name in ("fp64", "fp32", "tf32", "fp16", "fp8") if name in rates]
        assert order == sorted(order), device["about"]
        if "fp8" in rates:
            assert rates["fp8"] / rates["fp16"] == pytest.approx(2, rel=0.03), device["about"]
        if "tf32" in rates and "RTX" not in device["about"]:
            assert rates["fp16"] / rates["tf32"] == pytest.approx(2, rel=0.03), device["about"]


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB SXM"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 40GB"),
        ("A100-PCIE-40GB", "NVIDIA A100 40GB"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 80GB PCIe"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
        ("NVIDIA H100 NVL", "NVIDIA H100 NVL"),
        ("NVIDIA H200", "NVIDIA H200 SXM"),
        ("NVIDIA B200", "NVIDIA B200 of HGX"),
        ("NVIDIA GB200", "NVIDIA GB200, one of the two GPUs"),
        ("NVIDIA L4", "NVIDIA L4"),
        ("NVIDIA L40S", "NVIDIA L40S"),
        ("Tesla T4", "NVIDIA T4"),
        ("Tesla V100-SXM2-16GB", "NVIDIA V100 SXM2"),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("AMD Instinct MI300X", "AMD Instinct MI300X"),
        ("AMD Instinct MI210", "AMD Instinct MI210"),
        ("NVIDIA A10G", None),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 3090 Ti", None),
        ("NVIDIA L40", None),
        ("", None),
        (None, None),
    ],
)
def test_devices_by_the_names_that_profilers_write(name: str | None, about: str | None) -> None:
    found = published().for_device(name)
    assert (found and found.about) == about


def test_a_table_of_users_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "peaks.json"
    path.write_text('{"ktrace_peaks": "1.0", "devices": [{"name": "h100", "tflops": {"bf16": 700}}]}')
    found = peaks_of(path)
    h100, h200 = found.for_device("NVIDIA H100 80GB HBM3"), found.for_device("NVIDIA H200")
    assert h100 is not None and h100.tflops == {"bf16": 700} and h100.gb_per_s is None
    assert h200 is not None and h200.gb_per_s == 4800


@pytest.mark.parametrize(
    ("document", "what"),
    [
        ([], "isn't a table of peak rates"),
        ({"ktrace_peaks": "2.0", "devices": []}, "isn't a table of peak rates"),
        ({"ktrace_peaks": "1.0"}, "has no devices"),
        ({"ktrace_peaks": "1.0", "devices": [{}]}, "has no name"),
        ({"ktrace_peaks": "1.0", "devices": [{"name": "("}]}, "isn't a regular expression"),
        ({"ktrace_peaks": "1.0", "devices": [{"name": "a", "tflops": {"bf17": 1}}]}, "tflops must be positive"),
        ({"ktrace_peaks": "1.0", "devices": [{"name": "a", "tflops": {"bf16": -1}}]}, "tflops must be positive"),
        ({"ktrace_peaks": "1.0", "devices": [{"name": "a", "gb_per_s": True}]}, "gb_per_s must be a positive"),
        ({"ktrace_peaks": "1.0", "devices": [{"name": "a", "gbs": 1}]}, "unknown key 'gbs'"),
    ],
)
def test_faults_in_a_table_are_named(tmp_path: Path, document: Any, what: str) -> None:
    path = tmp_path / "peaks.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=what):
        peaks_of(path)


def test_the_command_names_the_fault(tmp_path: Path) -> None:
    shapes = SAMPLES / "kineto/shapes-of-products-attention-copies.json"
    command = [program(), "summary", str(shapes), "--by", "roofline", "--peaks", "none.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert "none.json: it can't be read as a table of peak rates" in done.stderr and "Traceback" not in done.stderr
