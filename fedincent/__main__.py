"""`python -m fedincent` is `fedincent`."""

from fedincent.cli import main

if __name__ == "__main__":
    main()
