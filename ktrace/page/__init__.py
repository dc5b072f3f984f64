"""Pages of HTML with charts, and the one call that renders tables in any format (`render`)."""
