"""Phases 7 to 13: optional features of the engine, built on the six seams of `core/interfaces.py`."""
