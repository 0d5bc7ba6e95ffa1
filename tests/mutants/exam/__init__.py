"""An exam made of known mistakes: which rule is broken?"""
