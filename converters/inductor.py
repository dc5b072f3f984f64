"""What PyTorch's Inductor prints: candidates for a kernel (max-autotune), kernels of TORCHINDUCTOR_PROFILE.

    AUTOTUNE mm(64x64, 64x64)
    strides: [64, 1], [64, 1]
    dtypes: torch.float16, torch.float16
      triton_mm_3 0.0100 ms 100.0% ACC_TYPE='tl.float32', BLOCK_K=32, ..., num_warps=4
      mm 0.0125 ms 80.0%
    SingleProcess AUTOTUNE benchmarking takes 0.5000 seconds and 1.0000 seconds precompiling

    TRITON KERNELS BANDWIDTH INFO (/tmp/torchinductor_u/ab/cab.py)
    0.160ms    	0.453 GB 	 2826.25GB/s 	 60.00% 	 triton_red_fused_5
    SUMMARY (/tmp/torchinductor_u/ab/cab.py)
    0.24ms   	 0.654 GB	 2725.00GB/s

Facts: torch/_inductor/select_algorithm.py, runtime/triton_heuristics.py of PyTorch 2.0 to 2.9. GB are 10^9 bytes.
"""

from __future__ import annotations

from decimal import Decimal

from ktrace.kit.text.forms import Columns, Form, Forms

_NUMBER = r"\d{1,12}\.\d{1,6}"


def _bytes(columns: Columns) -> Columns:
    """The bytes of a kernel, from GB with three decimals."""
    columns["bytes"] = int(Decimal(columns["args"]["GB"]) * 10**9)
    return columns


_BANDWIDTH = rf"\s*(?P<total>{_NUMBER})ms\s+(?P<GB>{_NUMBER}) GB\s+(?P<GB_per_s>{_NUMBER})GB/s"

FORMS = Forms(
    "PyTorch Inductor",
    ("autotune ", "gb/s"),
    Form("", r"(?P<name>AUTOTUNE [\w.:]{1,200}\([^()]{0,2000}\)) *", opens=True),
    Form("", r"(?:strides|dtypes): .{0,4000}", within=True, sign=False),
    Form(
        "metric",
        rf"  (?P<name>\S{{1,300}}) (?P<avg>{_NUMBER}) ?(?P<unit>ms|s)"
        r" (?:(?P<of_best>[\d.]{1,8}%)|<DIVIDED BY ZERO ERROR>)"
        r"(?: (?P<choice>.{0,1000}))?",
        within=True,
        sign=False,
    ),
    Form(
        "overhead",
        rf"(?:Single|Sub)Process AUTOTUNE (?:benchmarking )?takes (?P<total>{_NUMBER}) seconds"
        rf"(?: and (?P<precompiling_s>{_NUMBER}) seconds precompiling)?.{{0,200}}",
        "s",
        {"name": "AUTOTUNE benchmarking", "count": 1},
        closes=True,
    ),
    Form("", r"TRITON KERNELS BANDWIDTH INFO \((?P<name>.{1,1000})\)", opens=True, sign=False),
    Form(
        "kernel",
        rf"{_BANDWIDTH}\s+(?:(?P<percent>[\d.]{{1,8}})%\s+)?(?P<name>triton_\S{{1,500}})\s*",
        "ms",
        {"count": 1, "device": 0},
        _bytes,
    ),
    Form("", r"SUMMARY \((?P<file>.{1,1000})\)", sign=False),
    Form("total", rf"{_BANDWIDTH}\s*", "ms", {"name": "Triton kernels"}, _bytes, closes=True, sign=False),
)

FORMAT = FORMS.format(
    "inductor", "PyTorch Inductor: candidates of AUTOTUNE, kernels of TORCHINDUCTOR_PROFILE", "*.log", "*.txt"
)
