"""Several engines behind one address: which of them gets a request, and the front end that passes it on."""
