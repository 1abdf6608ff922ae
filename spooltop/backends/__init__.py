"""Floor 2: kinds of spools. Each is a Reader and, if it can be changed, an Operator (``spooltop.model.backend``)."""
