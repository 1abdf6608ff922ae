"""Flow and depth over time: rates, percentiles, trends and histories."""
