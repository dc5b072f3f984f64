"""Damages samples of every format, at random but repeatably, and says what ktrace makes of them.

    python -m tests.fuzz --minutes 120                  all formats
    python -m tests.fuzz --minutes 5 --format nsys      one format
    python -m tests.fuzz --minutes 60 --compare         compiled reader, Python, processes: the same rows and account
    python -m tests.fuzz --replay nsys/NAME.sqlite/17   one case again, with its traceback

A case is named after its format, its sample and its seed; the name alone decides what is done to the sample, which
command reads it and with which options. A case ends in one of four ways:

    done      ktrace reads the file, every record is accounted for, and the output is what its format says
    refused   ktrace names the file in an error of its own, and leaves nothing behind
    boundary  the same, but a reader raised another exception: a gap in the reader, since a bad value should cost its
              record, not the file
    finding   all else: another exception, a hang, a crash, too much memory, an account that doesn't add up, an output
              that nobody can read, a file that stays behind

`samples` finds the samples through the registry of formats, `damage`, `damage_texts`, `damage_stores` and `damage_wire`
change them, `case` says what a case does, `child` runs it in a process of its own, `checks` and `frames` look
at what came of it, `findings` keeps what was found as
small as it gets, `driver` repeats all that.
"""
