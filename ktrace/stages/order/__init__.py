"""The stage `order`, which sorts, pairs, nests and links all events of a trace once for every timeline writer.

    timeline      runs the steps and yields the events in ranges of time
    pairing       makes slices of begins and ends that the source wrote apart
    launch_join   makes arrows from calls to the work they launched, by correlation
    links         numbers the arrows that the source wrote and attaches their ends to events and slices
    endlinks      moves links on the end of a slice to the slice, for table writers
    arrows        the ends of arrows, however they were attached
    sweep         sorts range after range and assigns lanes
    slices        the slices of a range: their lanes, and which one encloses a time
    nesting       how the slices of a track nest
    edges         begins and ends in the order in which a timeline shows them
    finish        the complete rows of a range

Events wait in `ktrace.store.events` meanwhile.
"""
