"""The stage that lays out tables on a timeline.

tables          a synthetic slice for each total
launch_tables   a synthetic slice for each launch without a time
"""
