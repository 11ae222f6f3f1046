"""supervisord as a child process, and what it leaves behind."""
