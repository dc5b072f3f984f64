"""The parts of the stage `order` (ktrace/stages/order/timeline.py puts them together).

eventstore   events while they wait: whole batches, and a row of numbers for each event   spill, words, trackindex
pairing      begins and ends that the source wrote apart become slices
launches     arrows by correlation                                                        matching, arrows
links        arrows that the source wrote: numbered, bound to a row or a slice
sweep        range after range: sorting, lanes, slices around arrows                      slices, nesting
edges        begins and ends as a timeline shows them
finish       the rows of a range, complete
"""
