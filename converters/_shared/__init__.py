"""What several formats use. What a reader takes depends on what it reads:

text, line by line      for logs and tables of people's size
    lines               each line is used, structure or skipped; `line_account` keeps the account of it
    tables              tables wherever they stand in a text, a `Row` at a time: `dialects` tells cells apart (pipes,
                        tabs, fixed width), `titles` are what stands above, `prefixes` what stands before each line
    columns             headings with their units as fields of the model, the figures in a row's cells
    decimal_commas      whether a file writes 2,5 or 2.5, settled once for all of it
    numbers             one number and its unit as printed, exactly
    device_names        what a name of work on a device says: a copy and its direction, a fill, a wait
    environment         environment variables: which may be shown, the rank that they say
    likely              for probes: lines that are worth a look

columns                 for millions of rows; never a Python object a value
    blocks              rows as Arrow columns under the source's own names: what SQLite and CSV become
    csv_blocks          blocks of the CSV tables in a text: `csv_headings` says which line is the headings, `csv_parts`
                        makes cells of lines
    cells               a column of text cells as one of numbers, times or sizes
    typed_cells         the same for a whole block, by a table that says which column of the model is made of what
    sqlite              blocks of the tables of a database: `sqlite_blocks` reads one of them, `sqlite_constants` leaves
                        out columns that say the same in every row, `lookup` finds the rows of another table
    dictionaries        columns with few distinct values
    protobuf            the fields of many messages at once, or of one

Nsight Compute
    ncu                 launches with metrics as rows, names of metrics, units, cells of numbers

ROCm
    rocm                what all of its profilers share: work-items, agents, names, counters
    rocm_reading        a CSV file: `rocm_tables` says which table it is, `rocm_work` reads dispatches, `rocm_rows` all
                        else, `rocm_dispatched` knows the dispatches that were told already, `rocm_columns` what
                        their columns are

canonical records       what ktrace itself writes and reads back
    records             rows of JSON as batches: `record_lines` finds them, `record_blocks` takes many at once
    decoding            what all who decode much JSON need
    encode              batches as JSON
    flat_table          batches as one table, for Parquet and CSV; `flat_rows` is the way back

timelines
    arguments           what a timeline shows as the arguments of a row
    trace_json          Trace Event JSON of all dialects
"""
