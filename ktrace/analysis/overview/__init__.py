"""Traces of any size: an overview of the whole run, and any part of it in full.

cache     the folder with traces that were read before, by what they were made of
stored    a trace as columns on disk, of which any part of the time can be read alone
lanes     how busy each device, stream and thread is over time, and with what
answers   what the page asks: lanes of a part of the time, what is heavy in it, a trace of it

The page is in ktrace/page/overview_page.py, its server in ktrace/viewer/.
"""
