"""Compares the decisions of an engine in any language with vLLM's recorded scheduling decisions.

This package uses only the standard library.
"""
