"""What an engine has beyond phases 1 to 6: phases 7 to 13, over the six seams of `core/interfaces.py`."""
