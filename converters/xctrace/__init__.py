"""XML that `xcrun xctrace export --xpath` writes of a recording of Apple Instruments, such as a Metal System Trace.

<trace-query-result>
<node xpath='//trace-toc[1]/run[1]/data[1]/table[109]'><schema name="metal-gpu-intervals">
<col><mnemonic>start</mnemonic><name>Creation</name><engineering-type>start-time</engineering-type></col> ...</schema>
<row><start-time id="1" fmt="00:00.907">907208500</start-time><duration id="2" fmt="13.83 µs">13833</duration>...</row>
<row><start-time id="19" ...>910416125</start-time><duration ref="2"/><gpu-channel-name ref="3"/><sentinel/> ...</row>
</node></trace-query-result>

A cell belongs to the column at its position, since tags repeat. A value is written once, with an id; later cells refer
to it, also to elements inside other cells. `<sentinel/>` is null. The text of an element is the value, `fmt` is for
people.

document   finds schemas and rows in the stream         scan       rows of the regular form, as numpy arrays
values     the values by id, in temporary files         elements   any other rows, with expat
columns    cells as columns of a block                  tables     what a table's columns become
"""
