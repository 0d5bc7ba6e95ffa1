"""What the commands share: console, options, tables, charts."""
