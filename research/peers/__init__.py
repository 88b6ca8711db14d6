"""Other libraries that forecast, wrapped as engines of the real-curve study. None of them is a dependency."""
