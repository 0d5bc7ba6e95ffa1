"""An exam made of known mistakes that asks which rule is broken."""
