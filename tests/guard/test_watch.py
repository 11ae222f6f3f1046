"""One program's record: incarnations, progress, phases, time left."""

from __future__ import annotations

from dsv4_pd.run.guard.decide.states import Answer, Phase
from dsv4_pd.run.guard.watch.record import Watch
from dsv4_pd.run.guard.watch.signatures import Signatures
from dsv4_pd.run.supervision.rpc import Process

SIGNATURES = Signatures("""
[[milestone]]
text = "Load weight begin."
phase = "weights"
[[progress]]
regex = 'Loading .*?(?P<percent>[0-9]+)%'
phase = "weights"
""")


def running(now: float = 100.0) -> Watch:
    watch = Watch("decode", SIGNATURES)
    watch.on_event("STARTING", now, 7)
    watch.on_event("RUNNING", now + 1, 7)
    return watch


def test_each_end_counts_once_however_it_is_told() -> None:
    watch = running()
    watch.on_gone(7, 109.0)
    assert not watch.up
    assert watch.deaths == 0, "supervisord has yet to say how"
    assert watch.view().ended == 109.0
    watch.on_event("EXITED", 110.0, 0, "exited with code 3")
    watch.on_event("FATAL", 111.0)
    assert (watch.deaths, watch.exit) == (1, "exited with code 3")
    assert watch.view().ended == 109.0, "when the kernel told it"


def test_an_exit_before_it_counted_as_running() -> None:
    watch = Watch("decode", SIGNATURES)
    watch.on_event("STARTING", 1.0)
    watch.on_event("BACKOFF", 1.1, 0, "exited with code 3")
    watch.on_event("FATAL", 1.2)
    assert (watch.deaths, watch.view().idle) == (1, True)


def test_what_supervisord_says_later_makes_up_for_a_missed_event() -> None:
    watch = running()
    assert watch.differs(Process("decode", "EXITED", 0, 3), asked=105.0)
    assert watch.differs(Process("decode", "RUNNING", 9, 0), asked=105.0)
    assert not watch.differs(Process("decode", "EXITED", 0, 3), asked=100.5), "older than the last event"


def test_a_late_notice_of_an_old_process_is_not_about_the_new_one() -> None:
    watch = running()
    watch.on_event("EXITED", 110.0, 0, "x")
    watch.on_event("STARTING", 111.0, 8)
    watch.on_gone(7, 112.0)
    assert watch.up


def test_phases_only_go_forward_and_carry_their_percent() -> None:
    watch = running()
    watch.on_lines(["[2026-11-29 15:20:11 TP0] Load weight begin. avail", "Loading shards:  43% Completed"], 120.0)
    assert (watch.phase, watch.percent, watch.describe()) == (Phase.WEIGHTS, 43, "weights 43 %")
    watch.on_ready(Answer.YES, 160.0)
    watch.on_lines(["[2026-11-29 15:20:11 TP0] Load weight begin. avail"], 170.0)
    assert watch.phase is Phase.READY


def test_what_an_earlier_guard_dealt_with_is_not_news() -> None:
    fatal = Signatures("""
[[fatal]]
text = "Scheduler hit an exception:"
action = "restart-role"
cause = "x"
[[milestone]]
text = "Load weight begin."
phase = "weights"
[[milestone]]
text = "Memory pool end."
phase = "graphs"
""")
    watch = Watch("decode", fatal)
    watch.on_event("RUNNING", 100.0, 7)
    old = ["server_args=", "Load weight begin.", "Memory pool end.", "Scheduler hit an exception: x"]
    watch.on_history([*old, "server_args=", "Load weight begin."], 101.0)
    assert (watch.complaint, watch.phase) == (None, Phase.WEIGHTS)
    watch.on_lines(["Scheduler hit an exception: y"], 102.0)
    assert watch.complaint


def test_progress_while_loading_and_work_while_serving() -> None:
    watch = running()
    watch.on_lines(["whatever"], 120.0)
    watch.on_work((frozenset({7}), 10), 130.0)
    watch.on_work((frozenset({7}), 10), 140.0)
    assert watch.progress == 130.0, "the same processes that have read nothing more"
    watch.on_ready(Answer.YES, 150.0)
    watch.on_lines(["GET /ready 200", "[2026-11-29 15:20:11 TP0] Decode batch, #running-req: 1"], 170.0)
    assert watch.view().worked == 150.0, "a client can make it log almost any text"
    watch.on_health(Answer.SILENT, 180.0)
    assert watch.view().worked == 150.0
    watch.on_health(Answer.YES, 190.0)
    assert watch.view().worked == 190.0


def test_tokens_count_as_moved_only_between_samples_taken_afterwards() -> None:
    watch = running()
    for at, value in ((200.0, 10.0), (202.0, 20.0), (204.0, 20.0), (206.0, 30.0)):
        watch.on_counter(value, at)
    assert watch.moves_since(201.0) == 1, "10 to 20 may have been computed before"
    assert watch.moves_since(199.0) == 2
    assert watch.view().worked == 206.0


def test_it_has_served_from_the_first_yes_to_the_end_of_that_process() -> None:
    watch = running()
    watch.on_ready(Answer.NO, 110.0)
    assert not watch.view().served
    watch.on_ready(Answer.YES, 120.0)
    watch.on_ready(Answer.SILENT, 130.0)
    assert watch.view().served
    watch.on_event("EXITED", 140.0, 0, "x")
    assert watch.view().served, "what it said as it ended is still the word of a server that clients reached"
    watch.on_event("STARTING", 141.0, 8)
    assert not watch.view().served


def test_a_process_that_an_earlier_guard_saw_serving_has_served() -> None:
    for pid, served in ((7, True), (8, False)):
        watch = Watch("decode", SIGNATURES)
        watch.served_pid = 7
        watch.on_event("RUNNING", 100.0, pid)
        assert watch.view().served is served


def test_a_new_guard_reads_in_the_log_that_a_server_serves() -> None:
    """Where the earlier one could not write it down, as in a full run folder."""
    start = "[2026-11-29 15:20:11] server_args=X"
    serves = "[2026-11-29 15:20:41] The server is fired up and ready to roll!"
    for lines, served in (([start], False), ([start, serves], True), ([start, serves, start], False)):
        watch = running()
        watch.on_history(lines, 101.0)
        assert watch.view().served is served


def test_when_the_newest_no_was_asked() -> None:
    watch = running()
    watch.on_ready(Answer.NO, 110.0, asked=109.0)
    watch.on_ready(Answer.SILENT, 113.0, asked=111.0)
    assert watch.view().refused == 109.0
    watch.on_ready(Answer.YES, 120.0, asked=119.0)
    assert watch.view().refused == 0.0


FATAL = Signatures("""
[[fatal]]
text = "first"
action = "restart-role"
cause = "the first"
[[fatal]]
text = "second"
action = "exit"
cause = "the second"
""")


def test_the_first_fatal_line_of_an_incident_is_kept_and_an_old_one_makes_room() -> None:
    watch = Watch("decode", FATAL)
    watch.on_event("RUNNING", 100.0, 7)
    watch.on_ready(Answer.YES, 101.0)
    for line, now in (("first", 110.0), ("second", 120.0)):
        watch.on_lines([line], now)
    said = watch.view().complaint
    assert said and (said.cause, said.at) == ("the first", 110.0)
    watch.on_lines(["second"], 150.0)
    said = watch.view().complaint
    assert said and (said.cause, said.at) == ("the second", 150.0)


def test_a_fatal_line_goes_with_the_process_that_logged_it() -> None:
    watch = Watch("decode", FATAL)
    watch.on_event("RUNNING", 100.0, 7)
    watch.on_lines(["first"], 110.0)
    watch.on_event("EXITED", 111.0, 0, "x")
    assert watch.view().complaint
    watch.on_event("STARTING", 112.0, 8)
    assert watch.view().complaint is None


def test_the_first_lost_child_is_the_cause() -> None:
    watch = running()
    watch.on_lost_worker("its scheduler was ended by SIGKILL")
    watch.on_lost_worker("its detokenizer exited with code 0")
    assert watch.view().lost == "its scheduler was ended by SIGKILL"
    assert watch.view().complaint is None


def test_an_end_that_the_guard_made_is_not_blamed_on_anything() -> None:
    watch = running()
    watch.on_kill()
    watch.on_event("EXITED", 110.0, 0, "was ended by SIGKILL (by the kernel when memory ran out)")
    assert watch.exit == "ended by the guard, to be started again"
    watch.on_event("STARTING", 111.0, 8)
    watch.on_event("EXITED", 120.0, 0, "was ended by SIGKILL")
    assert watch.exit == "was ended by SIGKILL"


def test_an_end_that_came_before_ours_keeps_its_own_words() -> None:
    watch = running()
    watch.on_gone(7, 109.0)
    watch.on_kill()
    watch.on_event("EXITED", 110.0, 0, "was ended by SIGSEGV")
    assert watch.exit == "was ended by SIGSEGV"


def test_compilers_that_follow_each_other_are_one_stretch() -> None:
    watch = running()
    for seen, now in ((True, 110.0), (False, 112.0), (True, 114.0), (True, 116.0), (False, 118.0)):
        watch.on_compilers(seen, now)
    assert watch.view().compiling == (110.0, 116.0)
    assert watch.describe() == "start"
    watch.on_compilers(True, 130.0)
    assert watch.view().compiling == (130.0, 130.0)
    assert watch.describe() == "start, a compiler runs", "what a start waits for that says nothing"


def test_an_older_guard_s_lines_with_the_first_words_inside_do_not_begin_a_start() -> None:
    watch = running()
    watch.on_history(["[2026-11-29 15:20:11] Load weight begin."], 101.0)
    watch.on_history(["[2026-11-29 15:20:11] Receive: text='server_args='"], 101.0)
    assert watch.phase == Phase.WEIGHTS.value
    watch.on_history(["[2026-11-29 15:20:11] server_args=ServerArgs(model_path='x')"], 101.0)
    assert watch.phase == Phase.START.value


def test_time_left_comes_from_the_last_good_start() -> None:
    watch = running(100.0)
    watch.last_times = {"weights": 10.0, "ready": 60.0}
    assert watch.eta(110.0) == 50.0
    watch.on_lines(["[2026-11-29 15:20:11 TP0] Load weight begin. avail"], 130.0)  # 20 s later than last time
    assert watch.eta(130.0) == 50.0
    watch.on_ready(Answer.YES, 170.0)
    assert watch.eta(171.0) is None
    assert watch.phase_times == {"weights": 30.0, "ready": 70.0}


def test_its_process_tree_is_looked_at_often_while_files_still_appear_and_seldom_later() -> None:
    watch = Watch("decode")
    watch.on_event("RUNNING", 10.0, 7)
    assert watch.survey_due(11.0)
    watch.on_ready(Answer.YES, 20.0)
    watch.on_work((frozenset({7}), 0), 21.0)
    assert watch.survey_due(23.0), "a file of its last second of loading"
    watch.on_work((frozenset({7}), 0), 79.0)
    assert not watch.survey_due(85.0)
    assert watch.survey_due(140.0)
