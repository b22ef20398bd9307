"""What the clients make of the models: judged sets, judgement, metrics."""
