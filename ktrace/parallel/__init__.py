"""Work in parallel.

fork           tasks that forked child processes share
in_order       bytes that a thread makes and writes
meanwhile      one thing in a thread while the caller does another
prefetch       items that a thread makes before they are needed
write_behind   a stream that a thread writes to
"""
