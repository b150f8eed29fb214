"""Where rows come from: paths and pipes, read ahead from a place, cut into blocks of whole records."""
