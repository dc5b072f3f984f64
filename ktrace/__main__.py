"""`python -m ktrace` is the command `ktrace`."""

from ktrace.cli import main

if __name__ == "__main__":
    main()
