"""Quantile forecasts of regular use, 24 h ahead (Salamander's forecasting builder).

The data flow, one file each: ``grid`` (series on 3 min steps), ``features`` (what is known at an
origin), ``rows`` (what is learned from), ``linear`` and ``boosted`` (models), ``mixture`` (one
forecast of theirs), ``calibration`` (per machine), ``model`` (all of it: fit and forecast),
``margin``; ``baselines``, ``backtest`` and ``scores`` say how good it is.
"""
