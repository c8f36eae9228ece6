"""Runs code in Jupyter kernels, behind the interface of E2B's code interpreter."""
