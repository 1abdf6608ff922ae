"""What is in the boxes: names listed in bulk, when to list them again, and what follows from the names alone."""
