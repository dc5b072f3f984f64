"""Tables of figures as text, CSV, JSON, Markdown and a page of HTML, whatever they are about."""
