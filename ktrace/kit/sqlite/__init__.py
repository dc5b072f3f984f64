"""Tables of SQLite databases as blocks of columns.

database            the tables of a database, found in any case and of any release, read only
table_reading       one table as blocks, by ADBC in ranges of rows
lookup              rows of one table for the rows of another: joins in bounded memory
"""
