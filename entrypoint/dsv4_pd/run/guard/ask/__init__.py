"""What programs answer when they are asked, and what their answers say."""
