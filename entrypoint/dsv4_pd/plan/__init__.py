"""From settings and host facts to programs and their files, before anything is started."""
