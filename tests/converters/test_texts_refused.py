"""Texts with numbers, units and tables that state no time of anything measured: none is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktrace.errors import KtraceError
from ktrace.trace import read

TEXTS = {
    "prose with times": "The job was slow. It took 5 minutes to start, and 3 ms later it failed.\nWe waited for 2 s.\n",
    "prose with ranges": (
        "Latency is usually 5-10 ms here, though on some hosts it may be 20-30 ms or even more than that.\n"
    ),
    "source code": "int main() {\n  usleep(500); // 0.5 ms\n  auto timeout = 5ms;\n  return run(timeout, 10us);\n}\n",
    "Python": "import time\ntime.sleep(0.5)\nprint(f'took {t} ms')\nTIMEOUT = 30  # seconds\n",
    "settings": "timeout: 30 s\nretry_interval: 5 s\nkeep_alive: 60 s\nmax_backoff: 120 s\n",
    "YAML": "training:\n  epochs: 3\n  lr: 0.1\n  warmup: 500\nserver:\n  timeout: 30s\n  interval: 5s\n",
    "a table of settings": "| Setting | Default | Unit |\n|---|---|---|\n| timeout | 30 | s |\n| retries | 3 | |\n",
    "timeouts in names of rows": (
        "| Option | a | b |\n|---|---|---|\n| Timeout (ms) | 500 | 250 |\n| Interval (s) | 5 | 10 |\n"
    ),
    "sizes": "| Model | Size (GB) | Layers |\n|---|---|---|\n| small | 1.5 | 12 |\n| large | 7.5 | 48 |\n",
    "rates": "| M | N | TFLOPS | GB/s |\n|---|---|---|---|\n| 64 | 64 | 1.5 | 20.25 |\n| 128 | 64 | 2.5 | 21.75 |\n",
    "no unit": "| N | before | after |\n|---|---|---|\n| 1024 | 0.085 | 0.066 |\n| 2048 | 0.065 | 0.056 |\n",
    "accuracy": "| Method | mAP | Top-1 |\n|---|---|---|\n| base | 0.51 | 0.76 |\n| ours | 0.55 | 0.79 |\n",
    "a CSV of weather": "time,temperature,humidity\n2024-01-01 00:00,3.5,80\n2024-01-01 01:00,3.25,81\n",
    "a CSV of trades": "ts,price,volume\n1700000000,10.5,300\n1700000001,10.25,200\n",
    "a CSV of people": "id,name,age,city\n1,Ann,34,Rome\n2,Bob,25,Oslo\n",
    "training": "Epoch 1, loss: 0.51, acc: 0.77\nEpoch 2, loss: 0.42, acc: 0.81\nEpoch 3, loss: 0.38, acc: 0.83\n",
    "cycles": "Core [0] : MatMul active cycle 196 Vector active cycle 0\nCore [0] : Total cycle: 360000\n",
    "a build": "[1/3] Building CXX object a.o\n[2/3] Building CXX object b.o\nLinking took 3 s\n",
    "tests": (
        "[ RUN      ] A.b\n[       OK ] A.b (12 ms)\n[ RUN      ] A.c\n[       OK ] A.c (3 ms)\n2 tests from 1 suite\n"
    ),
    "pytest": "===== test session starts =====\n0.50s call tests/a.py::test_b\n0.25s call tests/a.py::test_c\n",
    "git": "commit 1234567\nAuthor: A <a@b.c>\nDate:   Mon Nov 30 01:14:33 2026\n\n    Faster by 3 ms\n",
    "a listing": "-rw-r--r-- 1 root root  4096 Nov 30 01:14 a.txt\n-rw-r--r-- 1 root root 12288 Nov 30 01:15 b.txt\n",
    "stamps": "0.5 s starting the server\n1.5 s loading the model\n2.5 s listening\n3.5 s done\n",
    "allocations": "# 0.5 seconds (284 k allocations: 17 MiB)\n# 0.25 seconds (7 k allocations: 400 KiB)\n",
    "two times without names": (
        "0.2857s vs. 1.2992s    3 preds\n0.0038s vs. 0.0565s    3 preds\n0.0039s vs. 0.05s    3 preds\n"
    ),
    "shapes": "mlp size  [2712, 8192] [283, 8192]\nattention size [1, 8192] [1, 8192]\n",
    "versions": "torch 2.1.0\ncuda 12.1\ncudnn 8.9.2\ndriver 535.54\n",
    "hashes": "a3f5c1 0.5\nb4e6d2 1.5\nc5d7e3 2.5\n",
    "points without a unit": "ORB Extraction: 14.031$\\pm$3.9257\nStereo Matching: 2.8735$\\pm$0.71912\n",
    "a sentence above sizes": "These are the sizes (in MB) of all tensors:\nweights: 12.5\nbias: 0.25\n",
    "dates": (
        "| Milestone | Start | End |\n|---|---|---|\n| alpha | 2024-01-01 | 2024-02-01 |\n"
        "| beta | 2024-02-01 | 2024-03-01 |\n"
    ),
    "letters behind numbers": (
        "grid  : 680u   2.5s  11w  1 calls\nbuild : 678u   1.5s  10w  2 calls\npost : 20u 0.5s  1w  3 calls\n"
    ),
}


@pytest.mark.parametrize("what", TEXTS)
def test_a_text_without_measured_times_is_refused(what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(TEXTS[what], "utf-8")
    try:
        trace = read(path)
    except KtraceError:
        return
    assert len(trace.summaries) + len(trace.events) == 0
