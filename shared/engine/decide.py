"""The decider: what happens next in an execution, given its Plan, its state and what was just heard."""

from __future__ import annotations

from shared.contracts import payloads as p
from shared.contracts.events import Event
from shared.contracts.ids import fact_id
from shared.engine import control, ending, joins, pipeline, signals, steps, tasks
from shared.engine.program import Program
from shared.engine.state import State
from shared.engine.stimuli import Cancel, NotPossibleError, Pause, Redrive, Resume, Stimulus, TimerFired
from shared.engine.turn import Decision, Turn
from shared.engine.world import World

MAX_IDLE_MOVES = 20_000
NOTHING = Decision()
HELD = Decision(held=True)


def decide(program: Program, state: State, stimulus: Stimulus, world: World) -> Decision:
    """Say what happens next; nothing, if this was heard before. The state is the caller's to give away: it changes."""
    turn = Turn(program, state, world)
    match stimulus:
        case Event():
            return _on_fact(turn, stimulus)
        case TimerFired():
            return _on_timer(turn, stimulus)
        case Cancel() | Pause() | Resume() | Redrive():
            control.check(turn, stimulus)
            control.obey(turn, stimulus)
            return _settled(turn)


def _on_fact(turn: Turn, fact: Event) -> Decision:
    state = turn.state
    said = fact.payload
    if isinstance(said, p.ExecutionRequested):
        if state.status != "new":
            return NOTHING
        turn.accept(fact)
        timer = ending.time_limit(turn)
        turn.emit(p.ExecutionStarted(turn.program.plan.entry, timer), parent=fact.event_id)
        ending.tell_parent_of_start(turn)
        return _settled(turn)
    if isinstance(said, p.ControlRequested):
        return _on_control(turn, fact, said)
    if state.is_over or state.status == "new":
        return NOTHING
    if state.status == "paused":
        return HELD
    match said:
        case p.TaskStarted():
            return _on_started(turn, fact, said.job_id)
        case p.TaskProcessed():
            return _on_outcome(turn, fact, said.job_id)
        case p.JobPoisoned():
            return _on_poisoned(turn, fact, said)
        case p.JobRepublished() | p.JobWaiting() | p.JobRescheduled():
            return _on_note(turn, fact, said.job_id)
        case p.SignalReceived():
            turn.accept(fact)
            return _settled(turn)
        case _:
            raise NotPossibleError(f"{fact.type} is no fact that is reported from outside")


def _on_started(turn: Turn, fact: Event, job_id: str) -> Decision:
    found = turn.state.find(fact.address) if fact.address is not None else None
    if found is None or found[1].job_id != job_id or found[1].started:
        return NOTHING
    turn.accept(fact, parent=found[1].cause)
    return turn.decision()


def _on_outcome(turn: Turn, fact: Event, job_id: str) -> Decision:
    found = turn.state.find(fact.address) if fact.address is not None else None
    if found is None or found[1].job_id != job_id:
        return NOTHING
    turn.accept(fact, parent=found[1].cause)
    pipeline.proceed(turn, *found)
    return _settled(turn)


def _on_poisoned(turn: Turn, fact: Event, said: p.JobPoisoned) -> Decision:
    found = turn.state.find(fact.address) if fact.address is not None else None
    if found is None or found[1].job_id != said.job_id:
        return NOTHING
    turn.accept(fact)
    message = f"no worker lived to tell: {said.reason}"
    error = {"kind": "worker_lost", "message": message, "retryable": True, "details": {"deliveries": said.deliveries}}
    outcome = {"status": "error", "result": None, "error": error, "meta": {}}
    turn.emit(p.TaskProcessed(said.job_id, outcome), fact.address, parent=fact.event_id)
    pipeline.proceed(turn, *found)
    return _settled(turn)


def _on_note(turn: Turn, fact: Event, job_id: str) -> Decision:
    """Note what became of a job in the log, as long as its attempt is current."""
    found = turn.state.find(fact.address) if fact.address is not None else None
    if found is None or found[1].job_id != job_id:
        return NOTHING
    turn.accept(fact, parent=found[1].cause)
    return turn.decision()


def _on_timer(turn: Turn, stimulus: TimerFired) -> Decision:
    if turn.state.status == "paused":
        return HELD
    if turn.state.is_over:
        return NOTHING
    elapsed = p.TimerElapsed(stimulus.job_id)
    if turn.state.timer == stimulus.job_id:
        turn.emit(elapsed)
        ending.time_out(turn)
        return turn.decision()
    for run, frame in turn.state.frames():
        if frame.job_id == stimulus.job_id and frame.kind == tasks.CHILD_KIND:
            turn.emit(elapsed, run.address(frame, task=True))
            tasks.start_child(turn, run, frame)
            return turn.decision()
    timed = next((run for run in turn.state.runs.values() if run.timer == stimulus.job_id), None)
    if timed is None:
        return NOTHING
    turn.emit(elapsed, timed.address())
    steps.time_out(turn, timed)
    return _settled(turn)


def _on_control(turn: Turn, fact: Event, said: p.ControlRequested) -> Decision:
    """Do what was asked of the execution from outside; what is not possible in its state is not done."""
    command = control.command_of(said)
    try:
        control.check(turn, command)
    except NotPossibleError:
        return NOTHING
    turn.accept(fact)
    control.obey(turn, command)
    return _settled(turn)


def _settled(turn: Turn) -> Decision:
    _settle(turn)
    return turn.decision()


def _settle(turn: Turn) -> None:
    """Make every move that needs no one from outside, until there is none."""
    idle_moves = 0
    while turn.state.status == "running":
        jobs = len(turn.jobs) + len(turn.children)
        if not _move(turn):
            return
        idle_moves += len(turn.jobs) + len(turn.children) == jobs
        if idle_moves > MAX_IDLE_MOVES or _too_many_steps(turn):
            idle = idle_moves > MAX_IDLE_MOVES
            message = "the execution goes round without doing any work" if idle else "max_steps is reached"
            ending.fail(turn, p.ExecutionFailed({"kind": "limit", "message": message, "retryable": False}))


def _move(turn: Turn) -> bool:
    """Make one move, if there is one to make."""
    if turn.ready:
        run, frame = turn.ready.popleft()
        pipeline.begin(turn, run, frame)
        return True
    return joins.place_next(turn) or signals.hand_over_next(turn) or ending.finish_if_idle(turn)


def _too_many_steps(turn: Turn) -> bool:
    limit = turn.program.plan.limits.max_steps
    return limit is not None and sum(turn.state.visits.values()) > limit


def requested(execution_id: str, said: p.ExecutionRequested, *, source: str = "api") -> Event:
    """Return the fact that an execution was asked for."""
    return Event(execution_id, said, event_id=fact_id(execution_id, "requested"), source=source)
