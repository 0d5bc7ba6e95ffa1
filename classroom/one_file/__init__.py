"""The reference engine as one file, made from the sources."""
