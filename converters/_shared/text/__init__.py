"""Text, line by line: tables and figures in logs."""
