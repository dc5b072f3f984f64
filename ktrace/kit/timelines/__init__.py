"""What timeline outputs share.

arguments       what is shown as the arguments of an event
track_paths     the names of tracks, for outputs without tracks below tracks
"""
