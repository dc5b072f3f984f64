"""A Python that runs calls for another one: `workers` starts it, and sends calls and takes answers as pickles.

It is started by the path of this file, with the folders of modules as its arguments: started with `-c` or `-m`, Python
would search the current folder first, where the inputs of somebody else may lie. Nothing is imported from anywhere but
these folders, and the process ends when the one that started it ends.
"""

import sys

if __name__ == "__main__":
    sys.path[:] = sys.argv[1:]

    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one sees to Ctrl-C

import os
import pickle
import threading
from queue import SimpleQueue
from typing import Any


def main() -> None:
    """Answers calls until there are no more."""
    from ktrace.parallel.startup import import_pyarrow, tune_allocator

    tune_allocator()
    import_pyarrow()
    calls, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)  # what a library prints is no answer
    except OSError:
        os.dup2(nothing, 1)
    waiting = SimpleQueue[Any]()
    threading.Thread(target=_take, args=(calls, waiting), daemon=True).start()
    with os.fdopen(answers, "wb") as stream:
        while True:
            function, argument = waiting.get()
            pickle.dump(function(argument), stream)
            stream.flush()


def _take(calls: int, waiting: "SimpleQueue[Any]") -> None:
    """Takes calls as they come. Ends the process where they end, even within a call."""
    with os.fdopen(calls, "rb") as stream:
        try:
            while True:
                waiting.put(pickle.load(stream))
        except EOFError:
            os._exit(1)


if __name__ == "__main__":
    main()
