"""The canonical records: what ktrace writes and reads back."""
