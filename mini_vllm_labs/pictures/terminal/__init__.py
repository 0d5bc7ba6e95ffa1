"""Shared by the commands: console, options, tables, charts."""
