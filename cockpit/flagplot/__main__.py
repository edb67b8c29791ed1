"""`python -m flagplot` is `flagplot`."""

from flagplot.cli.main import entry

entry()
