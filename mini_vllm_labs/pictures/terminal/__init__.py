"""Contains the code that the commands share: console, options, tables, charts."""
