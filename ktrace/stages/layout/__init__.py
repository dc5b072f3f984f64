"""Tables on timelines: a bar for every total, a slice for every launch that has no time."""
