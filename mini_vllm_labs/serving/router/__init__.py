"""Serves several engines at a single address, with a front end and policies that choose an engine for each request."""
