"""The canonical records: what ktrace writes and reads back.

records             JSON rows as batches: `record_lines` finds them, `record_blocks` parses many at once
encode              batches as JSON
flat_table          batches as one table, for Parquet and CSV; `flat_rows` reads it back
"""
