"""The running appliance: `serve`, supervisord below it, the guard, the console, the ops port."""
