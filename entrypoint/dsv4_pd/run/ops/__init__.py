"""The ops port: state, metrics and the page over HTTP."""
