"""`make release`: everything of a release up to the push, and the list of what a release promises."""
