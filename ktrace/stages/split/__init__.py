"""The stage that divides a trace into numbered parts.

split_by   the option: time=10s, size=500MB, step
stage      assigns each row to a part and yields the rows of a part
steps      which step each event belongs to
"""
