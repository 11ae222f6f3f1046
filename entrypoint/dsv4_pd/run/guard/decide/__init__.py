"""What happens next, from what was observed: states, conditions, incidents, actions. All of it pure."""
