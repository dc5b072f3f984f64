"""The canonical records: what ktrace writes and reads back.

records             JSON rows as batches, and batches as JSON: `record_lines` finds the rows, `record_batches` makes
                    batches of many at once; `record_forms` is what differs between JSON Lines and JSON documents
flat_table          batches as one table, for Parquet and CSV; `flat_rows` reads it back
unique_ids          what all readers of these leave out: rows that repeat an id
"""
