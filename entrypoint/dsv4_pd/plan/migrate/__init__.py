"""From systemd units of an older deployment to settings of this one."""
