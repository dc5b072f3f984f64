"""What stages keep until they have seen all rows.

spill         batches and rows of numbers in memory, above a limit in a temporary folder
events        all events of a trace: their batches, and a row of numbers for each
gathered      rows of several kept batches in any order
vocabulary    numbers for the words of text columns
track_index   numbers for tracks
tally         counts of rows that a stage leaves out
joins         joins and groups of rows by columns of numbers
launches      which call launched which device work
"""
