"""The command line, with one file per command; `main.py` combines them."""
