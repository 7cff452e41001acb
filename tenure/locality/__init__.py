"""Tasks go where their data is fast: tiers, matching, allocation and prefetching (Trident).

Pure. Kernels are plain loops over arrays; ``kernels`` compiles them where numba is installed.
"""
