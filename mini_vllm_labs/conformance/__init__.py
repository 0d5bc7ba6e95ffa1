"""Compares the decisions of an engine in any language with vLLM's recorded scheduling decisions.

It uses only the standard library.
"""
