"""The recorded runs of the notebooks: `python -m tools.recorded_runs` makes `labs/observed/notebooks/`."""
