#ifndef Py_INTERNAL_PERF_HOOK_H
#define Py_INTERNAL_PERF_HOOK_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

#include <stdbool.h>

/* How C enters Python functions while native profiling is on: between the hook
 * (Python/perf_hook.c), the code that lays out areas of labels on the C stack
 * (Python/asm_trampoline_*.S) and the evaluator that fills them.  Call with
 * a thread state. */

/* --- Frame areas --------------------------------------------------------- */

/* What a walker of frame pointers takes for a stack frame.
 *
 * A pointer to one is a frame pointer, as a register or another record holds
 * it: on some architectures not the address of the record, but one at a fixed
 * distance.  _PyPerfArch_RECORD() gives the address.  Records that follow each
 * other in memory are one apart either way. */
typedef struct _PyPerf_record {
    struct _PyPerf_record *next;        /* at a higher address */
    uintptr_t label;
} _PyPerf_record;

/* An evaluator with records.  lowest: the lowest slot of its area, or what the
 * link points at if it has no area. */
typedef PyObject *(*_PyPerf_areaevalfunc)(PyThreadState *tstate,
                                          struct _PyInterpreterFrame *frame,
                                          int throwflag,
                                          _PyPerf_record *lowest);

/* The code of Python/asm_trampoline_*.S, which see.
 *
 * Reserve an area with free_bytes, a multiple of 16, for slots on the C stack,
 * enter label as its first record, which next follows, and call evaluator
 * below it.  next: the newest record of the Python function that has called,
 * or NULL.  The lowest four bits of free_bytes are evaluator's throwflag. */
typedef PyObject *_PyPerf_enterfunc(PyThreadState *tstate,
                                    struct _PyInterpreterFrame *frame,
                                    _PyPerf_record *next, uintptr_t label,
                                    size_t free_bytes_and_throwflag,
                                    _PyPerf_areaevalfunc evaluator);

/* Call evaluator below record, which is filled already, in a slot of the
 * caller's area. */
typedef PyObject *_PyPerf_sharefunc(PyThreadState *tstate,
                                    struct _PyInterpreterFrame *frame,
                                    int throwflag, _PyPerf_record *lowest,
                                    _PyPerf_record *record,
                                    _PyPerf_areaevalfunc evaluator);

typedef struct {
    _PyPerf_enterfunc *enter;
    _PyPerf_sharefunc *share;
} _PyPerf_AreaCode;

/* Unwinders that read DWARF see the C stack without labels. */
extern _PyPerf_enterfunc _PyPerf_EnterArea;
extern _PyPerf_sharefunc _PyPerf_ShareArea;

/* The same in another place, for which the jitdump has unwind information:
 * profilers that read it see the labels. */
extern _PyPerf_enterfunc _PyPerf_EnterAreaWithUnwindInfo;
extern _PyPerf_sharefunc _PyPerf_ShareAreaWithUnwindInfo;

/* Run frame in one of the evaluators below, which shows no function.
 * throwflag must include _PyPerf_NO_AREA. */
extern PyObject *_PyPerf_EnterWithoutArea(PyThreadState *tstate,
                                          struct _PyInterpreterFrame *frame,
                                          int throwflag);
extern PyObject *_PyPerf_EnterLinesWithoutArea(
    PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag);
#define _PyPerf_NO_AREA 2

/* A flag for an evaluator that is to take over functions of another one. */
#define _PyPerf_TAKES_OVER 4

/* The evaluators that ceval_labelled.c and ceval_lines.c make of ceval.c. */
extern PyObject *_PyEval_EvalFrameDefault_labelled(
    PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag,
    _PyPerf_record *lowest);
extern PyObject *_PyEval_EvalFrameDefault_lines(
    PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag,
    _PyPerf_record *lowest);

/* --- The hook ------------------------------------------------------------ */

/* From now on, in all interpreters, make areas by this code, and show between
 * Python functions the native ones that stand there, or not. */
extern void _PyPerfHook_UseAreas(const _PyPerf_AreaCode *code,
                                 bool shows_native);

/* Let C enter the interpreter's Python functions through the hook, and let
 * these show their lines or not.  Return 0, or -1 without memory. */
extern int _PyPerfHook_Install(PyInterpreterState *interp, bool shows_lines);

/* Undo that.  Frames that are running finish where they started. */
extern void _PyPerfHook_Remove(PyInterpreterState *interp);

/* The same for all interpreters. */
extern void _PyPerfHook_RemoveAll(void);

extern int _PyPerfHook_IsInstalled(PyInterpreterState *interp);

/* Let the next call of a Python function, in any interpreter in which the hook
 * is installed, first call _PyPerfTrampoline_FirstCall(); or no longer.  The
 * former takes the lock of the list of interpreters. */
extern void _PyPerfHook_AwaitCall(void);
extern void _PyPerfHook_AwaitNoCall(void);
extern void _PyPerfTrampoline_FirstCall(void);

/* Make no system calls from now on, or again: a thread that has not called a
 * function yet is taken for one with a small C stack. */
extern void _PyPerfHook_Seal(bool is_sealed);

/* Let this thread ask _PyPerfTasks_Take() of each function that C enters, or
 * no longer. */
extern void _PyPerfHook_AwaitTask(bool yes);

/* Return code's label, or that of the line that frame shows, or that of the
 * task with this name.  If it is new, announce its symbol.  Never fails. */
extern uintptr_t _PyPerfTrampoline_Label(PyCodeObject *code);
extern uintptr_t _PyPerfTrampoline_LineLabel(
    struct _PyInterpreterFrame *frame);
extern uintptr_t _PyPerfTrampoline_TaskLabel(PyObject *name);

/* --- A full area --------------------------------------------------------- */

/* An evaluator whose area is full lets another one run the function that it
 * was about to call, below a new area with many slots.  A function that calls
 * others in a loop would do so each time: if it does so again, it goes along,
 * and so do those that have called it.  In three steps: */

/* 1. Return the outermost of the functions that go along with callee, or
 * callee if none does.  Let what is before that be tstate's current frame.
 * The label is kept until then: the evaluator has no stack to spare. */
extern struct _PyInterpreterFrame *_PyPerfTrampoline_ChooseFirst(
    PyThreadState *tstate, struct _PyInterpreterFrame *callee,
    uintptr_t label_of_callee);

/* 2. Run the callee by evaluator, below a new area, and return what first
 * returns.  own: the frame record of the evaluator that runs first until now,
 * with which the link begins.  Like _PyEval_EvalFrame(). */
extern PyObject *_PyPerfTrampoline_EvalInNewArea(
    PyThreadState *tstate, _PyPerf_record *own,
    _PyPerf_areaevalfunc evaluator);

/* 3. In the new evaluator, if told _PyPerf_TAKES_OVER, with the callee
 * entered, and own and lowest its own: put in order who has called whom, and
 * link copies of the records. */
extern void _PyPerfTrampoline_TakeOver(_PyPerf_record *own,
                                       const _PyPerf_record *lowest);

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_HOOK_H */
