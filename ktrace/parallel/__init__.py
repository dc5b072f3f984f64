"""Work in parallel.

fork           tasks that forked child processes share
threads        what a thread does while the caller does something else: make the next item, write
interruption   Ctrl-C and the signals that end a process
"""
