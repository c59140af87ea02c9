#ifndef Py_INTERNAL_PERF_CALLER_ENTRY_H
#define Py_INTERNAL_PERF_CALLER_ENTRY_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

#include "opcode_ids.h"             // INTERPRETER_EXIT
#include "pycore_code.h"            // _PyCode_CODE()
#include "pycore_frame.h"

/* The way to the calling evaluator in a base with entry frames; included by
 * pycore_perf_caller.h, which says what it is for.
 *
 * An evaluator has a frame of its own on its C stack, its entry frame, through
 * which its Python functions return.  It is in the list of frames, behind
 * those of the functions, but most of its members have no meaning: an
 * evaluator with labels keeps what we have to know there.  What tells it from
 * others, which leave there whatever was on the stack, is a member that all of
 * them set: the instructions through which functions return.
 *
 * So the list of frames leads from the current frame to the right evaluator,
 * whatever else has happened: when greenlet switches to another C stack, it
 * switches the list.  To be quick where the list is long, each thread
 * remembers the evaluator that it has entered last, and each evaluator the
 * frame that it runs: the memory is right if that is the current frame.
 * Otherwise it may be of another stack, or overwritten. */
typedef _PyInterpreterFrame _PyPerf_Evaluator;

#define _PyPerf_ENTRY_OWN(entry) ((_PyPerf_record *)(entry)->f_globals)
#define _PyPerf_ENTRY_LOWEST(entry) ((_PyPerf_record *)(entry)->f_builtins)
#define _PyPerf_ENTRY_RUNS(entry) ((_PyInterpreterFrame *)(entry)->f_locals)
#define _PyPerf_ENTRY_BEFORE(entry) \
    ((_PyInterpreterFrame *)(entry)->frame_obj)

/* As ceval.c has them for the ordinary evaluator: a function that returns goes
 * on at the second instruction, a generator that yields two further. */
extern const _Py_CODEUNIT _PyPerf_exits[6];
#define _PyPerf_LABELLED ((_Py_CODEUNIT *)&_PyPerf_exits[1])
#define _PyPerf_STAND_IN ((_Py_CODEUNIT *)&_PyPerf_exits[0])

static inline void
_PyPerf_MarkEntry(_PyInterpreterFrame *entry, const _Py_CODEUNIT *kind,
                  _PyPerf_record *own, _PyPerf_record *lowest)
{
    entry->instr_ptr = (_Py_CODEUNIT *)kind;
    entry->f_globals = (PyObject *)own;
    entry->f_builtins = (PyObject *)lowest;
}

/* The evaluator that this thread has entered last. */
extern __thread __attribute__((tls_model("initial-exec")))
    _PyInterpreterFrame *_PyPerf_entered;

#define _PyPerf_DEFINE_CALLER \
    const _Py_CODEUNIT _PyPerf_exits[6] = { \
        {.op.code = NOP}, {.op.code = INTERPRETER_EXIT}, \
        {.op.code = NOP}, {.op.code = INTERPRETER_EXIT}, \
        {.op.code = NOP}, {.op.code = INTERPRETER_EXIT}, \
    }; \
    __thread __attribute__((tls_model("initial-exec"))) \
        _PyInterpreterFrame *_PyPerf_entered;

static inline int
_PyPerf_IsEntry(const _PyInterpreterFrame *frame)
{
    return frame->owner == _PyPerfBase_ENTRY_OWNER;
}

static inline int
_PyPerf_IsStandIn(const _PyInterpreterFrame *frame)
{
    return _PyPerf_IsEntry(frame) && frame->instr_ptr == _PyPerf_STAND_IN;
}

/* The link, with which its own frame record begins. */
static inline _PyPerf_record *
_PyPerf_Newest(const _PyPerf_Evaluator *entry)
{
    return _PyPerf_ENTRY_OWN(entry)->next;
}

static inline _PyPerf_record *
_PyPerf_Lowest(const _PyPerf_Evaluator *entry)
{
    return _PyPerf_ENTRY_LOWEST(entry);
}

static inline const _PyPerf_Evaluator *
_PyPerf_QuickCaller(PyThreadState *tstate, uintptr_t floor, size_t span)
{
    const _PyInterpreterFrame *entry = _PyPerf_entered;
    if ((uintptr_t)entry - floor >= span
        || (uintptr_t)entry <= _PyPerfArch_StackPointer()
        || _PyPerf_ENTRY_RUNS(entry) != tstate->current_frame
        || entry->instr_ptr != _PyPerf_LABELLED
        || tstate->current_frame == entry) {
        return NULL;
    }
    return entry;
}

/* Can frame be read?  Not if it is the entry frame of what has been left. */
static inline int
_PyPerf_IsThere(const _PyInterpreterFrame *frame, _PyPerf_StackBounds bounds)
{
    return frame != NULL
           && ((uintptr_t)frame > bounds.stack_pointer
               || (uintptr_t)frame < bounds.low);
}

/* Is frame where only entry frames are?  If it is none, something else has
 * come to lie there. */
static inline int
_PyPerf_IsOnStack(const _PyInterpreterFrame *frame, _PyPerf_StackBounds bounds)
{
    return (uintptr_t)frame > bounds.stack_pointer
           && (uintptr_t)frame < bounds.end;
}

/* Does an evaluator with labels, or what stands in for one, still run? */
static inline int
_PyPerf_IsLive(const _PyInterpreterFrame *entry)
{
    return (entry->instr_ptr == _PyPerf_LABELLED
            || entry->instr_ptr == _PyPerf_STAND_IN)
           && _PyPerf_IsOwnRecord(entry, _PyPerf_ENTRY_OWN(entry));
}

/* An evaluator whose last function has returned runs none, so that it is the
 * one before that has called. */
static inline const _PyPerf_Evaluator *
_PyPerf_Caller(PyThreadState *tstate, _PyPerf_StackBounds bounds)
{
    _PyInterpreterFrame *frame = tstate->current_frame;
    while (_PyPerf_IsThere(frame, bounds) && _PyPerf_IsEntry(frame)) {
        if (_PyPerf_IsStandIn(frame)) {
            return _PyPerf_IsLive(frame) ? frame : NULL;
        }
        frame = frame->previous;
    }
    while (_PyPerf_IsThere(frame, bounds) && !_PyPerf_IsEntry(frame)) {
        if (_PyPerf_IsOnStack(frame, bounds)) {
            return NULL;
        }
        frame = frame->previous;
    }
    if (!_PyPerf_IsThere(frame, bounds)) {
        return NULL;
    }
    if (_PyPerf_IsLive(frame)) {
        if (!_PyPerf_IsStandIn(frame)) {
            _PyPerf_entered = frame;
        }
        return frame;
    }
    frame = frame->previous;
    return _PyPerf_IsOnStack(frame, bounds) && _PyPerf_IsStandIn(frame)
           && _PyPerf_IsLive(frame) ? frame : NULL;
}

static inline int
_PyPerf_IsFirst(PyThreadState *tstate)
{
    return tstate->current_frame == _PyPerfBase_LAST_FRAME(tstate);
}

static inline int
_PyPerf_IsOutermost(const _PyInterpreterFrame *frame)
{
    return _PyPerf_IsEntry(frame->previous);
}

static inline void
_PyPerf_MakeOutermost(_PyInterpreterFrame *first, _PyInterpreterFrame *callee,
                      _PyInterpreterFrame *caller)
{
    first->previous = callee->previous;
    callee->previous = caller;
}

/* What cleans up after __init__() has none.  Its code, which not every base
 * declares in a header, is the only one that begins like this. */
static inline int
_PyPerf_HasRecord(const _PyInterpreterFrame *frame)
{
    PyCodeObject *code = (PyCodeObject *)_PyPerfBase_OBJECT(
        frame->f_executable);
    return _PyCode_CODE(code)->op.code != EXIT_INIT_CHECK;
}

static inline const void *
_PyPerf_CallerMark(PyThreadState *tstate)
{
    return tstate->current_frame;
}

typedef _PyInterpreterFrame _PyPerf_StandIn;

static inline void
_PyPerf_BeginToStandIn(PyThreadState *tstate, _PyPerf_StandIn *entry,
                       _PyPerf_record *own, _PyPerf_record *lowest)
{
    *entry = (_PyInterpreterFrame){
        .f_executable = _PyPerfBase_REFERENCE(Py_None),
        .previous = tstate->current_frame,
        .owner = _PyPerfBase_ENTRY_OWNER,
        _PyPerfBase_NO_STACK(entry)
    };
    _PyPerf_MarkEntry(entry, _PyPerf_STAND_IN, own, lowest);
    tstate->current_frame = entry;
}

static inline void
_PyPerf_StopStandingIn(PyThreadState *tstate, const _PyPerf_StandIn *entry)
{
    tstate->current_frame = entry->previous;
}

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_CALLER_ENTRY_H */
