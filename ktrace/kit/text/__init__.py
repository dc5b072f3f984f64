"""Text, line by line: for logs and for tables small enough to read whole.

lines               the lines of a source, and their account: each is used, structure or skipped
line_reader         a reader that takes one line after the other, and remembers what was before
tables              tables anywhere in a text, a `Row` at a time: `candidates` reads a line as headings, with those
                    below it; `layouts` splits rows into cells (pipes, tabs, fixed width), `markup` those of HTML,
                    LaTeX and wikis, `wrapped` joins rows of several lines; `titles` finds the titles above a table,
                    and for probes the lines with telling words
alike               lines of one form as a table: what they share are headings, what differs are cells
trees               times of things within things: what each takes by itself, and with what is within it
variants            tables of one thing in several settings: figures under the names of these, which are no sum
proofs              what figures prove: columns of rows without headings, the unit of shares, which rows are sums
headings            headings and their units as fields of the model, the figures in a row's cells; those of CSV tables
forms               declarations: forms of lines, patterns with named groups, as formats
numbers             one printed number and its unit, exactly; whether a file writes 2,5 or 2.5
measured            what times aren't of work: what is set or expected, tests, how long a program has run
states              states of devices that are read now and then, as ranges
device_names        the kind of device work by its name: a copy with its direction, a fill, a wait, a kernel
json_items          JSON documents as a stream: the elements of a list, the members of an object
"""
