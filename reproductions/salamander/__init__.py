"""Harvest in virtual time: hosts replay real use, batches run in what it leaves."""
