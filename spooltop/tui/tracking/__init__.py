"""What became of messages and operations since the person last saw them."""
