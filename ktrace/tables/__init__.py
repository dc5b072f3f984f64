"""Tables of figures.

figures     a table: columns with units, and rows; figures, times and names as readable text; parts of
            tables within limits
frames      tables as Arrow tables and DataFrames; what a notebook shows
text        tables as text, fitted to a terminal, and as CSV, JSON and Markdown
workbook    tables as a workbook of Excel
"""
