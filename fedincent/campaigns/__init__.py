"""Many runs: what is still to be done, in which order, and what carries it out."""
