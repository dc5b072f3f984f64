"""The command `ktrace`, also as `python -m ktrace`."""

import gc
import signal

# Nothing is made yet that would have to be removed: Ctrl-C during the imports just ends the process.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# Imports make no garbage that is worth a search; `ktrace.parallel.startup` turns the collection on when work begins.
gc.disable()

from ktrace.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
