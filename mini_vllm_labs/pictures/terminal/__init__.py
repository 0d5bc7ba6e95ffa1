"""Contains the commands' common code: console, options, tables, charts."""
