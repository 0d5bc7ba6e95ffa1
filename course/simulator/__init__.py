"""What serving would be like on hardware that is not here: a cost model on a virtual clock, and no torch."""
