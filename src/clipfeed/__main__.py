"""`python -m clipfeed` is the `clipfeed` command."""

from clipfeed.cli import main

main()
