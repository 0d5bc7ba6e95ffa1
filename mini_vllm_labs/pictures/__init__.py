"""Draws an engine's steps with pure functions from traces to SVG, and shows them in three ways. See README.md."""
