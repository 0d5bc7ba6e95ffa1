"""Exports the judge's results to other systems, and the judge itself to systems that run it."""
