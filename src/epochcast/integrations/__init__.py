"""epochcast where people train: one module per framework, each a thin shell over a stopping rule or a search.

Nothing is imported here: a module asks for its framework when it is itself imported, and names the extra to install.
"""
