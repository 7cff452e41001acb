"""The simulation study of the SLA paper, run again: `python -m reproductions sla`."""
