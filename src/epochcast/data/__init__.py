"""Data files that ship with the package; see the README beside them."""
