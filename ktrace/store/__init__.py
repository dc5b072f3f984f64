"""What stages keep until they have seen all rows.

spill         batches and rows of numbers in memory, above a limit in a temporary folder
events        all events of a trace: their batches in any order, and a row of numbers for each
vocabulary    numbers for the words of text columns, for tracks, and for the combinations of values in some columns
joins         joins and groups of rows by columns of numbers, such as of calls and the work that they launched
"""
