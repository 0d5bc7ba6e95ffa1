"""Every number that a handout, a slide or a guide claims is found again; `checks/` has what finds it."""
