"""Back-tests of the forecasts on real traces: `python -m reproductions forecasts`."""
