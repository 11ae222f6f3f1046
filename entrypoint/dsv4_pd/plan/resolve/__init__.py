"""`plan --resolve`: the engine's and the router's own parsers are asked what they make of our command lines."""
