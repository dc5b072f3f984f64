"""Work in parallel.

fork           tasks that forked child processes share
prefetch       items that a thread makes before they are needed
write_behind   a stream that a thread writes to
"""
