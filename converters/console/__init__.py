"""Logs of a browser's or a script's console with durations that a page printed in a form of its own.

    [gpu] step=0 kernel=fill begin=2651731345152 end=2651732944373 gpu_ms=1.5992 grid=128x1x1
    [gpu] matmul 123456 ns
    upload: 1.23 ms                        also console.time's: 1.23ms, 3ms - timer ended, 1:02.345 (m:ss.mmm)
    [tfjs] {"kernels":[{"name":"Relu","kernelTimeMs":6.135,"inputShapes":[[32,64]]}]}
    %cRelu             	%c6.10ms	%c2D 32,64         	%c2048	%cx: 2D 32,64 	%c font-weight:bold color:red
    │ (index) │ name     │ ms   │                           console.table

`figures` reads lines, `boxes` tables. Programs whose own words are known have rooms of their own: this one comes last.
"""
