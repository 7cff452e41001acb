"""What containers really use: decode engine statistics, keep them, make profiles of them.

The modules here are pure; ``io`` samples engines and keeps the statistics store.
"""
