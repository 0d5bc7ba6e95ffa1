"""The embedded model in a browser's tab, where there is no torch: tokens, arrays, and JavaScript that computes."""
