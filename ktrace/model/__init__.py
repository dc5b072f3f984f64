"""The canonical model: batches of Arrow columns, and what describes them.

schema         the JSON Schema, and the names of columns by what they are about
batch          a batch of one record, its columns and its kinds
row_builder    builds batches row by row
fitting        rows with values that don't fit their columns, and integers that fit 64 bits
catalog        facts about sources, processes, devices, streams and clocks
tracks         tracks and processes, with the names that a timeline shows
text_sizes     the bytes of text in batches, whose size is bounded
masks          which rows of a batch satisfy a condition
arrays         names for the types of numpy arrays
json_rows      JSON texts of many rows, from columns
json_text      JSON values as text, and records as they are in canonical files
"""
