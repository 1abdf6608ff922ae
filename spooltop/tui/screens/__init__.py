"""What a person chose lives here; what it looks like is drawn by ``draw``, what a key means stands in ``commands``."""
