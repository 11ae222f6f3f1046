"""A running appliance as verify, bench and status reach it."""
