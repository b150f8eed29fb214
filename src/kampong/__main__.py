"""`python -m kampong` is the command `kampong`."""

from kampong.cli import main

if __name__ == "__main__":
    main()
