"""Parts of a trace: by time (crop) and by what rows say (filter)."""
