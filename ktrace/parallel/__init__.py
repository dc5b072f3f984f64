"""Work in parallel.

fork           tasks that forked child processes share
workers        calls that other processes run, each a Python of its own; `worker` is what these run
threads        what a thread does while the caller does something else: make the next item, write
interruption   Ctrl-C and the signals that end a process
startup        what a process does first: set the allocator, import pyarrow without what none needs
"""
