"""What is around the settings and the host facts: folders, disks, tools, and the model as far as it is here."""
