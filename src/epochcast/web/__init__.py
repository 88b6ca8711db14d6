"""The page that stays live: a view on `Watcher` in the browser, and the same as one file."""
