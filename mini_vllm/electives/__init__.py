"""Phases 7 to 14: optional features of the engine, built on the six seams of `core/interfaces.py`."""
