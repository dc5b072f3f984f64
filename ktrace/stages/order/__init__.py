"""The stage `order`, which sorts, pairs, nests and links all events of a trace once for every timeline writer.

    timeline   runs the steps and yields the events in ranges of time
    pairing    makes slices of begins and ends that the source wrote apart; for table writers, too
    links      arrows, of the source and from calls to the work they launched, and the events and slices of their ends
    sweep      sorts range after range (of many events at one time, part by part), assigns lanes, and completes the rows
    nesting    how the slices of a track nest, their lanes, and which one encloses a time

Events wait in `ktrace.store.events` meanwhile.
"""
