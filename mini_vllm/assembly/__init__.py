"""From a lineup to a running engine: whose code runs in which phase, and the bill of materials."""
