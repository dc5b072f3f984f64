"""Tables of figures.

table       a table: columns with units, and rows
figures     figures and names as readable text
frames      tables as Arrow tables and DataFrames; what a notebook shows
text        tables as text, fitted to a terminal
csv_text    tables as CSV
json_text   tables as JSON
markdown    tables as Markdown
workbook    tables as a workbook of Excel
"""
