# make demo       set up, then watch the engine run on the model that comes with the course
# make test       set up, then test the installation and the engine (about three minutes)
# with solutions
# make test-all   the same, then everything else: widgets, notebooks, judge, benchmarks, all mutants and fair alternatives
# make wheel      set up, then write the package that learners install into dist/: the student edition, and `start`
# end
# make lab        set up, then open the notebooks
# with solutions
# make site       set up, then build the website: the course in a browser tab (build/site)
# end
# make lint       set up, then check style, types and imports
# TORCH=cpu or TORCH=pip after any of them chooses the build of PyTorch that the set-up installs.
# Without make: `python lab.py demo`, `python lab.py test` and so on.
PYTHON ?= python3

.PHONY: demo test test-all wheel site lab lint clean
demo test test-all wheel site lab lint:
	@$(PYTHON) lab.py $@ $(if $(TORCH),--torch $(TORCH))

clean:
	rm -rf .venv build *.egg-info
