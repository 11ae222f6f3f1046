"""The door of the appliance: what every client meets first, the same with either router (docs/adr/0606)."""
