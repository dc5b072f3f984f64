"""The console log of Doppler (github clocksmith/doppler), an LLM engine for WebGPU in the browser.

    [browser:log] [3567.2ms][KernelSelect] matmul variant=f16 reason=path_override
    [browser:warning] [3717.9ms][Profile] Prefill (prefill):
    [browser:warning] [3718.2ms][Profile] GPU Profile Report
    ──────────────────────────────────────────────────
    Kernel                      Time (ms)       %
    ──────────────────────────────────────────────────
    attention                       24.27    21.2
    matmul:ffn_up:L0                 2.11     1.8
    ──────────────────────────────────────────────────
    TOTAL                           26.38   100.0

The browser's messages carry the ms since the page was opened; the command line tool around the browser
writes its own lines: [progress], [ok] and [metrics]. Each row of a report is the sum for one label over one
step, from WebGPU timestamps.
"""
