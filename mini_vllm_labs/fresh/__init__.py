"""Runs code in new processes, separate from the notebook. Imports here slow down every start."""
