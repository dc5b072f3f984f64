"""The command `ktrace`, also as `python -m ktrace`."""

import signal

# Nothing is made yet that would have to be removed: Ctrl-C during the imports just ends the process.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from ktrace.cli import main

if __name__ == "__main__":
    main()
