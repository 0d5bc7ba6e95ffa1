"""Several engines behind one address: the front end, and the policies that choose an engine for each request."""
