"""Values that all other packages share: frozen and pure. No file, process or clock is touched here."""
