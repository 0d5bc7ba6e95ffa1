"""Serves several engines at one address: a front end, and policies that choose an engine for each request."""
