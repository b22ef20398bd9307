"""Small experiments of the papers that train no federation: each module has a `study` that gives numbers and a picture."""
