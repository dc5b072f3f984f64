"""What timeline outputs share.

arguments       what is shown as the arguments of an event
"""
