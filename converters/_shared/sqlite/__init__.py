"""Tables of SQLite databases as blocks of columns."""
