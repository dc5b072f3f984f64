"""What several formats use: lines of text, tables in text, units and numbers."""
