"""`python -m nnet3` is the command `nnet3`."""

from nnet3.cli import main

if __name__ == "__main__":
    main()
