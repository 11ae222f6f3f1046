"""The guard: the one writer of the appliance's state.

supervisord's events, probes and the servers' log lines become one `Observation`; `policy.next_state` turns it into the
next state and the actions; `run` applies them. It imports the standard library, aiohttp's server and httpx2 only: it
lives beside the servers for months and is budgeted in megabytes.
"""
