"""Columns, for millions of rows: no Python object for a value.

blocks              rows as Arrow columns under the source's own names; SQLite and CSV readers make them
csv_blocks          blocks from the CSV tables in a text: `csv_parse` splits lines into cells
text_cells          a column of text cells as a column of numbers, times or sizes
typed_cells         the same for a whole block, by a table from the model's columns to headings
dictionaries        columns with few distinct values
protobuf            the fields of many protobuf messages at once, or of one
"""
