/* The hook: how C enters Python functions while native profiling is on.
 *
 * It is the frame evaluation function (PEP 523) of an interpreter that
 * Python/perf_trampoline.c has switched on.  It chooses the area of labels
 * for the function and enters an evaluator below it, by the code in
 * Python/asm_trampoline_*.S.  Everything here runs with a thread state.
 *
 * There may be no GIL.  What is of a thread is on its C stack or thread-local;
 * single words that all threads read are atomic; and an interpreter's
 * eval_frame and tool change while its other threads are stopped, or, in a
 * child that was just forked, where there are none.
 *
 * On or off is kept nowhere but in the interpreter's eval_frame.  Indifferent
 * to fork.  Nothing can fail but the installation.
 */

#include "Python.h"
#include "pycore_ceval.h"
#include "pycore_frame.h"
#include "pycore_interp.h"
#include "pycore_perf_arch.h"
#include "pycore_perf_caller.h"
#include "pycore_perf_hook.h"
#include "pycore_perf_labels.h"
#include "pycore_perf_lines.h"
#include "pycore_perf_process.h"
#include "pycore_perf_tasks.h"
#include "pycore_perf_trampoline.h"
#include "pycore_pystate.h"

#include <stdbool.h>

_PyPerf_DEFINE_CALLER

/* --- Kinds of areas ------------------------------------------------------ */

/* For words that any thread may read at any time.  On our platforms these are
   ordinary loads and stores. */
#define READ(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#define WRITE(word, value) __atomic_store_n(&(word), value, __ATOMIC_RELAXED)

/* The code in use, for all interpreters.  It outlives the back end.  While it
   changes, a thread may find one member new and another one old: any go
   together. */
static struct {
    _PyPerf_enterfunc *enter;
    _PyPerf_sharefunc *share;
    ptrdiff_t room_to_share;    /* an area that has less is not shared */
} areas;

/* An area with fewer free slots is not shared. */
#define SLOTS_TO_SHARE 8

void
_PyPerfHook_UseAreas(const _PyPerf_AreaCode *code, bool shows_native)
{
    WRITE(areas.enter, code->enter);
    WRITE(areas.share, code->share);
    WRITE(areas.room_to_share,
          shows_native ? PTRDIFF_MAX
          : (ptrdiff_t)(SLOTS_TO_SHARE * sizeof(_PyPerf_record)));
}

/* Are native functions to be shown, between those of Python? */
static inline bool
shows_native(void)
{
    return READ(areas.room_to_share) == PTRDIFF_MAX;
}

/* --- The C stack --------------------------------------------------------- */

/* Slots of areas: of the first one in a thread, which few programs fill; of
   one that continues a full area; of any other that C enters. */
#define FIRST_AREA_SLOTS 256
#define NEXT_AREA_SLOTS 256
#define AREA_SLOTS 32

/* Of those that every entry from C gets, to show native functions. */
#define NATIVE_AREA_SLOTS 16

/* An area is not shared either if it is so much higher on the C stack: perf
   copies at most 64 KiB of it, and the innermost functions should be among
   them.  A new area for each such piece takes a hundredth more of it. */
#define FARTHEST_TO_SHARE (40 * 1024)

/* Recursion must end, or not, where it does without labels, but for three
   hundredths.  Slots take less than one: */
#define STACK_PER_SLOT (128 * sizeof(_PyPerf_record))

/* ...and beyond this depth no area gets slots: a program with a raised
   recursion limit needs its C stack more than we do.  Each entry from C takes
   up to a tenth more than it would or, with an area of its own, two thirds.
   When entries have used so much of the stack, further ones have to do without
   label. */
#define MAX_LABELLED_DEPTH 2048
#define SHARED_PART(size) ((size) / 4)
#define NATIVE_PART(size) Py_MAX((size) / 20, (size_t)FIRST_ENTRIES)

/* What the first two entries need, threading's and the thread's function. */
#define FIRST_ENTRIES 1536

/* If nobody can tell how much of a stack is left. */
#define ASSUMED_STACK_SIZE ((size_t)1 << 16)

/* The C stack of this thread, as it was when it first came here. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
    uintptr_t shared_floor;     /* entries below have no label... */
    size_t shared_size;         /* from there up to where it can be read */
    uintptr_t native_floor;     /* ...nor these, if each has its own area */
    uintptr_t low;
    uintptr_t end;              /* above all of it */
    size_t size;                /* of what may be used; 0: not measured yet */
    uintptr_t quick_floor;      /* shared_floor, unless something has to be
                                   looked at first: then nothing is above */
} stack = {.quick_floor = UINTPTR_MAX};

static inline uintptr_t
stack_pointer(void)
{
    return (uintptr_t)__builtin_frame_address(0);
}

static bool is_sealed;

/* Find out once how much stack the thread has left, whoever made it. */
static Py_NO_INLINE void
measure_stack(void)
{
    const uintptr_t here = stack_pointer();
    stack.size = READ(is_sealed) ? 0
                 : _PyPerfProcess_StackBelow(here, &stack.end);
    uintptr_t readable_end = stack.end;
    if (stack.size == 0) {
        stack.size = ASSUMED_STACK_SIZE;
        stack.end = here + ASSUMED_STACK_SIZE;
        readable_end = here;
    }
    stack.low = here - stack.size;
    const uintptr_t limit = _PyPerfBase_STACK_LIMIT(_PyThreadState_GET());
    if (stack.low < limit && limit < here) {
        stack.size = here - limit;
    }
    stack.shared_floor = here - SHARED_PART(stack.size);
    stack.shared_size = readable_end - stack.shared_floor;
    stack.native_floor = here - NATIVE_PART(stack.size);
    stack.quick_floor = stack.shared_floor;
}

void
_PyPerfHook_Seal(bool yes)
{
    if (stack.size == 0) {
        measure_stack();
    }
    WRITE(is_sealed, yes);
}

/* May an entry from C take stack here? */
static bool
has_room_to_enter(void)
{
    if (stack.size == 0) {
        measure_stack();
    }
    return stack_pointer() >= (shows_native() ? stack.native_floor
                                              : stack.shared_floor);
}

/* How much C stack to spend on slots here. */
static size_t
free_bytes(PyThreadState *tstate, size_t slots)
{
    const size_t limit = stack.size / STACK_PER_SLOT;
    const size_t depth = (size_t)_PyPerfBase_DEPTH(tstate);
    if (depth > Py_MIN(limit, MAX_LABELLED_DEPTH)) {
        return 0;
    }
    return Py_MIN(slots, limit) * sizeof(_PyPerf_record);
}

/* --- The hook ------------------------------------------------------------ */

/* May a function that caller's evaluator enters through C have a record in
   its area? */
static inline bool
is_to_be_shared(const _PyPerf_Evaluator *caller, const _PyPerf_record *newest)
{
    return (char *)newest - (char *)_PyPerf_Lowest(caller)
               >= READ(areas.room_to_share)
           && (uintptr_t)newest - (uintptr_t)caller <= FARTHEST_TO_SHARE;
}

/* Let a slot be the record before next. */
static inline void
fill(_PyPerf_record *slot, _PyPerf_record *next, uintptr_t label)
{
    volatile _PyPerf_record *record = _PyPerfArch_RECORD(slot);
    record->next = next;
    record->label = label;
}

/* A record's next is what profilers follow: the compiler has to keep the
   order. */
static inline _PyPerf_record *volatile *
newest_of(_PyPerf_record *record)
{
    return &record->next;
}

/* Fill the slot below newest, and run frame below it, in the same area. */
static inline PyObject *
share_area(PyThreadState *tstate, _PyInterpreterFrame *frame, int throwflag,
           _PyPerf_record *newest, uintptr_t label, _PyPerf_record *lowest,
           _PyPerf_areaevalfunc evaluator)
{
    fill(newest - 1, newest, label);
    return READ(areas.share)(tstate, frame, throwflag, lowest, newest - 1,
                             evaluator);
}

/* Run frame by evaluator below its label, wherever there is room for that. */
static PyObject *
enter(PyThreadState *tstate, _PyInterpreterFrame *frame, int throwflag,
      uintptr_t label, _PyPerf_areaevalfunc evaluator)
{
    const _PyPerf_Evaluator *caller = shows_native() ? NULL
        : _PyPerf_Caller(tstate, (_PyPerf_StackBounds){
            stack.low, stack_pointer(), stack.end});
    _PyPerf_record *newest = caller ? _PyPerf_Newest(caller) : NULL;
    /* The chain ascends; a program may have stacks that nobody knows of. */
    if ((uintptr_t)newest < stack_pointer()) {
        newest = NULL;
    }
    if (newest != NULL && is_to_be_shared(caller, newest)) {
        return share_area(tstate, frame, throwflag, newest, label,
                          _PyPerf_Lowest(caller), evaluator);
    }
    const size_t slots = shows_native() ? NATIVE_AREA_SLOTS
                         : _PyPerf_IsFirst(tstate) ? FIRST_AREA_SLOTS
                         : AREA_SLOTS;
    return READ(areas.enter)(tstate, frame, newest, label,
                             free_bytes(tstate, slots) | (size_t)throwflag,
                             evaluator);
}

/* The frame record of the function that this stands in. */
#define OWN_RECORD \
    _PyPerfArch_RECORD((_PyPerf_record *)__builtin_frame_address(0))

/* In the place of an evaluator, below the label of a task: what the hook does
   without one. */
static PyObject *
eval_frame_below_task(PyThreadState *tstate, _PyInterpreterFrame *frame,
                      int throwflag, _PyPerf_record *lowest)
{
    _PyPerf_StandIn stand_in;
    _PyPerf_BeginToStandIn(tstate, &stand_in, OWN_RECORD, lowest);
    PyObject *result = _PyEval_EvalFrame(tstate, frame, throwflag);
    _PyPerf_StopStandingIn(tstate, &stand_in);
    return result;
}

void
_PyPerfHook_AwaitTask(bool yes)
{
    if (stack.size == 0) {
        measure_stack();
    }
    stack.quick_floor = yes ? UINTPTR_MAX : stack.shared_floor;
}

/* The label that frame begins with, which may have run before. */
static uintptr_t
label_of(_PyInterpreterFrame *frame, bool with_lines)
{
    return with_lines ? _PyPerfTrampoline_LineLabel(frame)
                      : _PyPerfTrampoline_Label(_PyPerfBase_CODE(frame));
}

static Py_NO_INLINE PyObject *
eval_frame_carefully(PyThreadState *tstate, _PyInterpreterFrame *frame,
                     int throwflag, bool with_lines)
{
    if (!has_room_to_enter()) {
        throwflag |= _PyPerf_NO_AREA;
        return with_lines
               ? _PyPerf_EnterLinesWithoutArea(tstate, frame, throwflag)
               : _PyPerf_EnterWithoutArea(tstate, frame, throwflag);
    }
    const uintptr_t task = _PyPerfTasks_Take(frame);
    if (task != 0) {
        return enter(tstate, frame, throwflag, task, eval_frame_below_task);
    }
    return enter(tstate, frame, throwflag, label_of(frame, with_lines),
                 with_lines ? _PyEval_EvalFrameDefault_lines
                            : _PyEval_EvalFrameDefault_labelled);
}

/* Each resumption of a generator comes through here: what is not needed every
   time is done elsewhere.  How low the stack is, the caller's position tells
   well enough.  One that a C++ exception has left is lower than our own. */
static inline PyObject *
eval_frame(PyThreadState *tstate, _PyInterpreterFrame *frame, int throwflag,
           const bool with_lines)
{
    PyCodeObject *code = _PyPerfBase_CODE(frame);
    const _PyPerf_offset offset = _PyCode_Label(code);
    const bool has_label = with_lines ? _PyPerfLines_SHOWN(offset)
                                      : offset != 0;
    const _PyPerf_Evaluator *caller = _PyPerf_QuickCaller(
        tstate, stack.quick_floor, stack.shared_size);
    if (has_label && caller != NULL) {
        _PyPerf_record *newest = _PyPerf_Newest(caller);
        if (is_to_be_shared(caller, newest)) {
            const uintptr_t label = with_lines
                ? _PyPerfLines_Label(offset, _PyPerfBase_BYTECODE(frame),
                                     _PyPerfBase_SHOWN_INSTRUCTION(frame))
                : _PyPerfLabels_base + offset;
            return share_area(tstate, frame, throwflag, newest, label,
                              _PyPerf_Lowest(caller),
                              with_lines ? _PyEval_EvalFrameDefault_lines
                                         : _PyEval_EvalFrameDefault_labelled);
        }
    }
    return eval_frame_carefully(tstate, frame, throwflag, with_lines);
}

PyObject *
_PyPerfTrampoline_EvalFrame(PyThreadState *tstate, _PyInterpreterFrame *frame,
                            int throwflag)
{
    return eval_frame(tstate, frame, throwflag, false);
}

PyObject *
_PyPerfTrampoline_EvalLines(PyThreadState *tstate, _PyInterpreterFrame *frame,
                            int throwflag)
{
    return eval_frame(tstate, frame, throwflag, true);
}

/* --- A full area --------------------------------------------------------- */

/* How many functions go along with one that finds an area full. */
#define FUNCTIONS_TO_HAND_OVER 32

/* Between the steps that pycore_perf_hook.h tells, and from one time that an
   area is full to the next. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
    _PyInterpreterFrame *first;
    _PyInterpreterFrame *caller;        /* of the callee */
    _PyInterpreterFrame *callee;
    uintptr_t label;                    /* of that */
    _PyPerf_record *own;                /* of the evaluator that hands over */
    size_t records;                     /* without the callee's */
} full;

/* A new area that is small takes half its slots.  One without any shows only
   the innermost function, whatever was handed over. */
static size_t
most_to_hand_over(PyThreadState *tstate)
{
    const size_t slots = free_bytes(tstate, NEXT_AREA_SLOTS)
                         / sizeof(_PyPerf_record);
    return slots == 0 ? FUNCTIONS_TO_HAND_OVER
                      : Py_MIN(slots / 2, FUNCTIONS_TO_HAND_OVER);
}

_PyInterpreterFrame *
_PyPerfTrampoline_ChooseFirst(PyThreadState *tstate,
                              _PyInterpreterFrame *callee,
                              uintptr_t label_of_callee)
{
    const bool is_again = full.caller == callee->previous;
    full.first = full.callee = callee;
    full.caller = callee->previous;
    full.label = label_of_callee;
    full.records = 0;
    if (!is_again || !_PyPerfBase_MAY_ENTER(tstate)) {
        return callee;
    }
    const size_t most = most_to_hand_over(tstate);
    _PyInterpreterFrame *next = full.caller;
    while (full.records < most && !_PyPerf_IsOutermost(next)) {
        full.first = next;
        full.records += _PyPerf_HasRecord(next);
        next = next->previous;
    }
    return full.first;
}

/* Without a free slot in its area, or further down, an inlined call gets one
   that only ever shows the innermost function: it takes no more C stack. */
PyObject *
_PyPerfTrampoline_EvalInNewArea(PyThreadState *tstate, _PyPerf_record *own,
                                _PyPerf_areaevalfunc evaluator)
{
    const int flag = full.first != full.callee ? _PyPerf_TAKES_OVER : 0;
    full.own = own;
    return READ(areas.enter)(tstate, full.callee, own->next, full.label,
                             free_bytes(tstate, NEXT_AREA_SLOTS)
                             | (size_t)flag, evaluator);
}

/* The new area's first record is the callee's, which the others' originals
   follow, so that at any time all are shown once.  It stays where it is when
   the copies take its place.  Where there is no slot for them, it alone stands
   for those that have been handed over. */
void
_PyPerfTrampoline_TakeOver(_PyPerf_record *own, const _PyPerf_record *lowest)
{
    _PyPerf_MakeOutermost(full.first, full.callee, full.caller);
    _PyPerf_record *const first_record = own->next;
    _PyPerf_record *const original = full.own->next;
    _PyPerf_record *const outer = original + full.records;
    _PyPerf_record *next = outer;
    if (first_record == lowest) {
        *newest_of(_PyPerfArch_RECORD(first_record)) = outer;
    }
    else {
        _PyPerf_record *slot = first_record;
        for (size_t i = full.records; i > 0; i--) {
            fill(--slot, next, _PyPerfArch_RECORD(original + i - 1)->label);
            next = slot;
        }
        fill(--slot, next, _PyPerfArch_RECORD(first_record)->label);
        *newest_of(own) = slot;
    }
    *newest_of(full.own) = outer;
}

/* --- Other tools' evaluators --------------------------------------------- */

/* Other tools have evaluators, too.  PEP 523 gives an interpreter one place,
 * and tools use it each as if it were theirs: they install their function for
 * the time of a call, remember what was there and call it, or set it back
 * later.  So what they get and set is a place of their own, in which ours
 * never stands, and eval_frame follows from that and from on or off:
 *
 *             no tool                         a tool
 *     off     NULL                            the tool's function
 *     on      _PyPerfTrampoline_EvalFrame     eval_frame_of_tool
 *     lines   _PyPerfTrampoline_EvalLines     eval_frame_of_tool
 *
 * A forked child that has not called a function yet has, when on without a
 * tool, eval_first_call or eval_first_call_lines.  Evaluators that are running
 * call functions through C under them, and so all calls come by.
 */

static bool awaits_call;

/* The interpreter goes back to its ordinary hook: each does so for itself, as
   others may come and go meanwhile. */
static void
note_first_call(PyInterpreterState *interp, _PyFrameEvalFunction awaiting,
                _PyFrameEvalFunction hook)
{
    if (READ(interp->eval_frame) == awaiting) {
        WRITE(interp->eval_frame, hook);
    }
    if (__atomic_exchange_n(&awaits_call, false, __ATOMIC_RELAXED)) {
        _PyPerfTrampoline_FirstCall();
    }
}

static PyObject *
eval_first_call(PyThreadState *tstate, _PyInterpreterFrame *frame,
                int throwflag)
{
    note_first_call(tstate->interp, eval_first_call,
                    _PyPerfTrampoline_EvalFrame);
    return _PyPerfTrampoline_EvalFrame(tstate, frame, throwflag);
}

static PyObject *
eval_first_call_lines(PyThreadState *tstate, _PyInterpreterFrame *frame,
                      int throwflag)
{
    note_first_call(tstate->interp, eval_first_call_lines,
                    _PyPerfTrampoline_EvalLines);
    return _PyPerfTrampoline_EvalLines(tstate, frame, throwflag);
}

/* On without a tool: by whether lines are shown, and whether the first call is
   awaited. */
static const _PyFrameEvalFunction hooks[2][2] = {
    {_PyPerfTrampoline_EvalFrame, eval_first_call},
    {_PyPerfTrampoline_EvalLines, eval_first_call_lines},
};

/* Only with eval_frame_of_tool the tool's function has to be kept, and whether
   lines are to be shown when it is gone: here, for each interpreter that was
   ever on.  Identifiers start again with a new runtime, so an entry may be
   older than its interpreter. */
typedef struct Tool {
    struct Tool *next;
    int64_t interpreter_id;
    _PyFrameEvalFunction eval_frame;
    bool shows_lines;
} Tool;

static Tool *tools;

static Tool *
look_up_tool(PyInterpreterState *interp)
{
    Tool *tool = tools;
    while (tool != NULL && tool->interpreter_id != interp->id) {
        tool = tool->next;
    }
    return tool;
}

/* Others come and go, but this one stays as long as its interpreter. */
static Tool *
find_tool(PyInterpreterState *interp)
{
    _PyPerfProcess_Lock();
    Tool *tool = look_up_tool(interp);
    _PyPerfProcess_Unlock();
    return tool;
}

static void
forget_tools_of_dead_interpreters(void)
{
    Tool **p = &tools;
    while (*p != NULL) {
        Tool *tool = *p;
        PyInterpreterState *interp = PyInterpreterState_Head();
        while (interp != NULL && interp->id != tool->interpreter_id) {
            interp = PyInterpreterState_Next(interp);
        }
        if (interp != NULL) {
            p = &tool->next;
        }
        else {
            *p = tool->next;
            free(tool);
        }
    }
}

static Tool *
make_tool(PyInterpreterState *interp)
{
    forget_tools_of_dead_interpreters();
    Tool *tool = calloc(1, sizeof(Tool));
    if (tool != NULL) {
        tool->interpreter_id = interp->id;
        tool->next = tools;
        tools = tool;
    }
    return tool;
}

/* Find or make the entry.  Return NULL without memory. */
static Tool *
ensure_tool(PyInterpreterState *interp)
{
    Tool *tool = find_tool(interp);
    if (tool == NULL) {
        _PyPerfBase_LOCK_INTERPRETERS();    /* first, as a fork does */
        _PyPerfProcess_Lock();
        tool = make_tool(interp);
        _PyPerfProcess_Unlock();
        _PyPerfBase_UNLOCK_INTERPRETERS();
    }
    return tool;
}

/* The frame that a thread has last given to a tool, and its caller. */
typedef struct {
    _PyInterpreterFrame *frame;
    const void *caller;
} GivenFrame;

static __thread GivenFrame given;

/* Let the tool run frame. */
static PyObject *
call_tool(PyThreadState *tstate, _PyInterpreterFrame *frame, int throwflag)
{
    const GivenFrame before = given;
    given = (GivenFrame){frame, _PyPerf_CallerMark(tstate)};
    PyObject *result = find_tool(tstate->interp)->eval_frame(tstate, frame,
                                                             throwflag);
    given = before;
    return result;
}

/* The same in the place of an evaluator.  The tool's function does not know of
   records: each call of a Python function comes back to the hook. */
static PyObject *
call_tool_below_records(PyThreadState *tstate, _PyInterpreterFrame *frame,
                        int throwflag, _PyPerf_record *lowest)
{
    _PyPerf_StandIn stand_in;
    _PyPerf_BeginToStandIn(tstate, &stand_in, OWN_RECORD, lowest);
    PyObject *result = call_tool(tstate, frame, throwflag);
    _PyPerf_StopStandingIn(tstate, &stand_in);
    return result;
}

/* The hook while there is a tool.  One that has read eval_frame itself may
   take this for its predecessor, and give back what it was given. */
static PyObject *
eval_frame_of_tool(PyThreadState *tstate, _PyInterpreterFrame *frame,
                   int throwflag)
{
    if (given.frame == frame && given.caller == _PyPerf_CallerMark(tstate)) {
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    if (READ(awaits_call)) {
        WRITE(awaits_call, false);
        _PyPerfTrampoline_FirstCall();
    }
    /* Written by hand, this may be in an interpreter that was never on. */
    const Tool *tool = find_tool(tstate->interp);
    if (tool == NULL || tool->eval_frame == NULL) {
        return _PyPerfTrampoline_EvalFrame(tstate, frame, throwflag);
    }
    if (!has_room_to_enter()) {
        return call_tool(tstate, frame, throwflag);
    }
    const uintptr_t task = _PyPerfTasks_Take(frame);
    if (task != 0) {
        return enter(tstate, frame, throwflag, task, eval_frame_below_task);
    }
    return enter(tstate, frame, throwflag,
                 _PyPerfTrampoline_Label(_PyPerfBase_CODE(frame)),
                 call_tool_below_records);
}

static bool
is_hook(_PyFrameEvalFunction eval_frame)
{
    return eval_frame == hooks[0][0] || eval_frame == hooks[0][1]
           || eval_frame == hooks[1][0] || eval_frame == hooks[1][1];
}

/* The tool's function that a value of eval_frame stands for, or NULL. */
static _PyFrameEvalFunction
tool_behind(PyInterpreterState *interp, _PyFrameEvalFunction eval_frame)
{
    if (eval_frame == eval_frame_of_tool) {
        const Tool *tool = find_tool(interp);
        return tool != NULL ? tool->eval_frame : NULL;
    }
    if (is_hook(eval_frame) || eval_frame == _PyEval_EvalFrameDefault) {
        return NULL;
    }
    return eval_frame;
}

_PyFrameEvalFunction
_PyPerfTrampoline_GetTool(PyInterpreterState *interp)
{
    return tool_behind(interp, READ(interp->eval_frame));
}

/* Let eval_frame be what the table above says for on. */
static int
set_tool_while_on(PyInterpreterState *interp, _PyFrameEvalFunction eval_frame)
{
    Tool *tool = ensure_tool(interp);
    if (tool == NULL) {
        return -1;
    }
    tool->eval_frame = eval_frame;
    if (READ(interp->eval_frame) == NULL) {
        _PyPerfBase_BEFORE_HOOK(interp);
    }
    WRITE(interp->eval_frame,
          eval_frame != NULL ? eval_frame_of_tool
          : hooks[tool->shows_lines][READ(awaits_call)]);
    return 0;
}

void
_PyPerfTrampoline_SetTool(PyInterpreterState *interp,
                          _PyFrameEvalFunction eval_frame)
{
    eval_frame = tool_behind(interp, eval_frame);
    if (!_PyPerfHook_IsInstalled(interp)
        || set_tool_while_on(interp, eval_frame) < 0) {
        WRITE(interp->eval_frame, eval_frame);
    }
}

/* --- On and off ---------------------------------------------------------- */

int
_PyPerfHook_IsInstalled(PyInterpreterState *interp)
{
    const _PyFrameEvalFunction eval_frame = READ(interp->eval_frame);
    return is_hook(eval_frame) || eval_frame == eval_frame_of_tool;
}

void
_PyPerfHook_AwaitCall(void)
{
    WRITE(awaits_call, true);
    _PyPerfBase_LOCK_INTERPRETERS();
    for (PyInterpreterState *interp = PyInterpreterState_Head();
         interp != NULL; interp = PyInterpreterState_Next(interp)) {
        for (int lines = 0; lines < 2; lines++) {
            if (READ(interp->eval_frame) == hooks[lines][false]) {
                WRITE(interp->eval_frame, hooks[lines][true]);
            }
        }
    }
    _PyPerfBase_UNLOCK_INTERPRETERS();
}

void
_PyPerfHook_AwaitNoCall(void)
{
    WRITE(awaits_call, false);
}

int
_PyPerfHook_Install(PyInterpreterState *interp, bool shows_lines)
{
    int result = -1;
    _PyPerfBase_STOP_OTHERS(interp);
    Tool *tool = ensure_tool(interp);
    if (tool != NULL) {
        tool->shows_lines = shows_lines;
        result = set_tool_while_on(interp, _PyPerfTrampoline_GetTool(interp));
    }
    _PyPerfBase_LET_OTHERS_RUN(interp);
    return result;
}

void
_PyPerfHook_Remove(PyInterpreterState *interp)
{
    _PyPerfBase_STOP_OTHERS(interp);
    WRITE(interp->eval_frame, _PyPerfTrampoline_GetTool(interp));
    _PyPerfBase_LET_OTHERS_RUN(interp);
}

void
_PyPerfHook_RemoveAll(void)
{
    _PyPerfBase_STOP_ALL();
    _PyPerfBase_LOCK_INTERPRETERS();    /* where there is a GIL, none stops */
    for (PyInterpreterState *interp = PyInterpreterState_Head();
         interp != NULL; interp = PyInterpreterState_Next(interp)) {
        WRITE(interp->eval_frame, _PyPerfTrampoline_GetTool(interp));
    }
    _PyPerfBase_UNLOCK_INTERPRETERS();
    _PyPerfBase_LET_ALL_RUN();
}

/* --- Frames without an evaluator ----------------------------------------- */

static bool
shows_lines(PyInterpreterState *interp)
{
    const _PyFrameEvalFunction eval_frame = READ(interp->eval_frame);
    return eval_frame == hooks[true][false] || eval_frame == hooks[true][true];
}

typedef struct {
    _PyInterpreterFrame *frame;
    _PyPerf_throwfunc *throw;
    PyGenObject *generator;
    int close_on_genexit;
    PyObject *type, *value, *traceback;
} ThrowCall;

/* In the place of an evaluator, with a ThrowCall in that of a frame. */
static PyObject *
throw_below_records(PyThreadState *tstate, _PyInterpreterFrame *arg,
                    int Py_UNUSED(throwflag), _PyPerf_record *lowest)
{
    const ThrowCall *call = (const ThrowCall *)arg;
    _PyPerf_StandIn stand_in;
    _PyPerf_BeginToStandIn(tstate, &stand_in, OWN_RECORD, lowest);
    PyObject *result = call->throw(call->generator, call->close_on_genexit,
                                   call->type, call->value, call->traceback);
    _PyPerf_StopStandingIn(tstate, &stand_in);
    return result;
}

static PyObject *
enter_throw(PyThreadState *tstate, ThrowCall *call)
{
    return enter(tstate, (_PyInterpreterFrame *)call, 0,
                 label_of(call->frame, shows_lines(tstate->interp)),
                 throw_below_records);
}

static PyObject *
throw_below_task(PyThreadState *tstate, _PyInterpreterFrame *arg,
                 int Py_UNUSED(throwflag), _PyPerf_record *lowest)
{
    _PyPerf_StandIn stand_in;
    _PyPerf_BeginToStandIn(tstate, &stand_in, OWN_RECORD, lowest);
    PyObject *result = enter_throw(tstate, (ThrowCall *)arg);
    _PyPerf_StopStandingIn(tstate, &stand_in);
    return result;
}

PyObject *
_PyPerfTrampoline_Throw(_PyInterpreterFrame *frame, _PyPerf_throwfunc *throw,
                        PyGenObject *generator, int close_on_genexit,
                        PyObject *type, PyObject *value, PyObject *traceback)
{
    PyThreadState *tstate = _PyThreadState_GET();
    /* throw() itself takes little stack: this is like an area of its own. */
    if (!_PyPerfHook_IsInstalled(tstate->interp) || !has_room_to_enter()
        || stack_pointer() < stack.native_floor) {
        return throw(generator, close_on_genexit, type, value, traceback);
    }
    ThrowCall call = {
        frame, throw, generator, close_on_genexit, type, value, traceback,
    };
    const uintptr_t task = _PyPerfTasks_Take(frame);
    if (task != 0) {
        return enter(tstate, (_PyInterpreterFrame *)&call, 0, task,
                     throw_below_task);
    }
    return enter_throw(tstate, &call);
}
