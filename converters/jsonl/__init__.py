"""Canonical records as JSON Lines, written by ktrace itself (model version 1).

    {"ktrace":"1.0"}
    {"record":"catalog","source":"run","id":0,"entity":"source","name":"run","facts":{"path":"run.md","format":"mlc"}}
    {"record":"event","source":"run","id":1,"ts":1000,"args":{"queued":0},"kind":"kernel","name":"gemm","dur":40,"timing":"measured"}

A record contains the columns that aren't null, in the order of the model.
"""
