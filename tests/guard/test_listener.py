"""The listener, on the lines that supervisord writes."""

from __future__ import annotations

from dsv4_pd.run.guard.watch import listener


def test_listener_reads_supervisords_own_lines() -> None:
    header = listener.tokens("ver:3.0 server:dsv4-pd serial:21 pool:guard poolserial:10 "
                             "eventname:PROCESS_STATE_EXITED len:71")  # fmt: skip
    event = listener.parse(header, "processname:decode groupname:decode from_state:RUNNING expected:0 pid:2766")
    assert event == listener.Event("decode", "EXITED", 2766)
    assert listener.parse({"eventname": "TICK_5"}, "when:1") is None
