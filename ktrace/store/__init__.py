"""What stages keep until they have seen all rows: events on disk, columns, vocabularies, indices, joins."""
