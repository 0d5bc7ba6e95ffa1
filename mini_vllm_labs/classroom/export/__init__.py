"""The judge's results as other systems take them, and what those systems need to run the judge."""
