"""Tables of figures as text, CSV, JSON and Markdown."""
