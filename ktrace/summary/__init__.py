"""Where the time went: what `ktrace summary` and `ktrace diff` compute."""
