"""Canonical records as one JSON document, written by ktrace itself (model version 1).

    {"ktrace":"1.0","records":[
    {"record":"catalog","source":"run","id":0,"entity":"source","name":"run","facts":{"path":"run.md","format":"mlc"}},
    {"record":"event","source":"run","id":1,"ts":1000,"kind":"kernel","name":"gemm","dur":40,"timing":"measured"}
    ]}

The records are those of JSON Lines. A document in this layout is read as a stream; any other is decoded whole.
"""
