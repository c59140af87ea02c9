#ifndef Py_INTERNAL_PERF_TRAMPOLINE_H
#define Py_INTERNAL_PERF_TRAMPOLINE_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

#include <stdbool.h>

/* Native profilers see Python functions by name: what the interpreter's own
 * files call.  Unless a contract says otherwise, call with a thread state.
 * The mechanism is described in Doc/design/frame_labels.rst. */

/* --- Life cycle (Python/perf_sys.c) -------------------------------------- */

/* Switch the trampoline on in a new interpreter if -X perf or the environment
 * asks for it.  A failure is one line on stderr: the program runs on. */
extern void _PyPerfTrampoline_Init(PyThreadState *tstate);

/* What -X perf and the environment say, as _PyPerfBase_PROFILING(config). */
extern int _PyPerfTrampoline_FromOptions(const PyConfig *config);

/* The entries of the sys module. */
extern PyObject *_PyPerfTrampoline_SysActivate(PyObject *, PyObject *,
                                               PyObject *);
extern PyObject *_PyPerfTrampoline_SysDeactivate(PyObject *, PyObject *);
extern PyObject *_PyPerfTrampoline_SysIsActive(PyObject *, PyObject *);
extern PyObject *_PyPerfTrampoline_SysSeal(PyObject *, PyObject *);
extern PyObject *_PyPerfTrampoline_SysAnnouncesNames(PyObject *, PyObject *);
extern const char _PyPerfTrampoline_SysActivate_doc[];
extern const char _PyPerfTrampoline_SysDeactivate_doc[];
extern const char _PyPerfTrampoline_SysIsActive_doc[];
extern const char _PyPerfTrampoline_SysSeal_doc[];
extern const char _PyPerfTrampoline_SysAnnouncesNames_doc[];

#define _PyPerfTrampoline_SYS_METHODDEFS                                      \
    {"activate_stack_trampoline",                                             \
     (PyCFunction)(void (*)(void))_PyPerfTrampoline_SysActivate,              \
     METH_VARARGS | METH_KEYWORDS, _PyPerfTrampoline_SysActivate_doc},        \
    {"deactivate_stack_trampoline", _PyPerfTrampoline_SysDeactivate,          \
     METH_NOARGS, _PyPerfTrampoline_SysDeactivate_doc},                       \
    {"is_stack_trampoline_active", _PyPerfTrampoline_SysIsActive,             \
     METH_NOARGS, _PyPerfTrampoline_SysIsActive_doc},                         \
    {"seal_stack_trampoline", _PyPerfTrampoline_SysSeal,                      \
     METH_NOARGS, _PyPerfTrampoline_SysSeal_doc},                             \
    {"_announces_thread_names", _PyPerfTrampoline_SysAnnouncesNames,          \
     METH_NOARGS, _PyPerfTrampoline_SysAnnouncesNames_doc},

/* --- The trampoline (Python/perf_trampoline.c or ..._stub.c) ------------- */

/* What to show besides names: native functions where they stand between Python
 * functions; lines. */
typedef enum {
    _PyPerf_NAMES = 0,
    _PyPerf_NATIVE = 1,
    _PyPerf_LINES = 2,
} _PyPerf_Detail;

/* Switch on in the current interpreter, writing symbols through the back end
 * of that name.  details: some of the above.  On already: fine; in another
 * way: switched.  Return 0, or -1 with ValueError or OSError set. */
extern int _PyPerfTrampoline_Activate(PyThreadState *tstate, const char *name,
                                      int details);

/* Switch off in the current interpreter.  Running frames end as they are. */
extern void _PyPerfTrampoline_Deactivate(PyThreadState *tstate);

extern int _PyPerfTrampoline_IsActive(PyThreadState *tstate);

/* The back end that the process uses, and in which way, or NULL if it has used
 * none. */
extern const char *_PyPerfTrampoline_BackEnd(int *details);

/* Start-up calls a hundred functions for the first time: from Hold to Release,
 * the symbols of frozen modules may be collected and written at once.  A
 * switch of back ends writes them before the old one's file is closed. */
extern void _PyPerfTrampoline_HoldSymbols(void);
extern void _PyPerfTrampoline_ReleaseSymbols(void);

/* Announce the symbol of code unless it has been.  Return 0, or -1 with
 * errno. */
extern int _PyPerfTrampoline_Announce(PyCodeObject *code);

/* The JIT has made code: let readers of the jitdump, if one is in use, know it
 * as _PyPerfJitdump_WriteCode() says. */
extern void _PyPerfTrampoline_AnnounceJitCode(const char *name,
                                              const void *code,
                                              size_t code_size,
                                              const unsigned char *eh_frame,
                                              size_t eh_frame_size);

/* Make no system call for symbols until the next activation.  Return 0, or -1
 * with OSError set if the file lacks symbols; then nothing has changed. */
extern int _PyPerfTrampoline_Seal(void);
extern int _PyPerfTrampoline_IsSealed(void);

/* Forget the parent's files, before the child runs Python code.  It gets its
 * own when it calls its first function after the program's fork handlers: many
 * a child only becomes another program. */
extern void _PyPerfTrampoline_AfterFork_Child(PyThreadState *tstate);
extern void _PyPerfTrampoline_AfterForkHandlers_Child(void);

/* Close the files at the end of the runtime.  Labels outlive it. */
extern void _PyPerfTrampoline_Fini(void);

/* --- Other tools' frame evaluation functions (Python/perf_hook.c) -------- */

/* What pystate.c's functions of PEP 523 get and set: the function that a tool
 * has installed, or NULL.  The trampoline is none of them.  While it is on it
 * stays on, and Python functions run below it, by the tool's function.  It is
 * set while the interpreter's other threads are stopped, by a GIL or else. */
extern _PyFrameEvalFunction _PyPerfTrampoline_GetTool(
    PyInterpreterState *interp);
extern void _PyPerfTrampoline_SetTool(PyInterpreterState *interp,
                                      _PyFrameEvalFunction eval_frame);

/* --- The back ends (Python/perf_map.c, Python/perf_jitdump.c) ------------ */

/* A file that tells profilers the symbols.  Functions return 0, or -1 with
 * errno set.  Those of the map need no GIL. */
struct _PyPerfText;
struct _PyPerfSymbol;

/* Make sure that the file is there and, with the next write, complete. */
extern int _PyPerfMap_Open(void);
extern int _PyPerfJitdump_Open(void);

/* Write what the file lacks: of this text; of the lines of these symbols; of
 * all symbols. */
extern int _PyPerfMap_WriteText(const struct _PyPerfText *text);
extern int _PyPerfMap_WriteLines(const struct _PyPerfSymbol *first);
extern int _PyPerfJitdump_WriteSymbols(void);

extern void _PyPerfJitdump_Close(void);

/* Add code of CPython's own JIT, with unwind information as perf puts it after
 * the code. */
extern int _PyPerfJitdump_WriteCode(const char *name, const void *code,
                                    size_t code_size,
                                    const unsigned char *eh_frame,
                                    size_t eh_frame_size);

/* Does a living process with our number write to the file, too? */
extern bool _PyPerfMap_IsShared(void);
extern bool _PyPerfJitdump_IsShared(void);

/* Forget the parent's file.  No other thread may exist. */
extern void _PyPerfMap_AfterFork_Child(void);
extern void _PyPerfJitdump_AfterFork_Child(void);

/* The path last opened or tried. */
extern const char *_PyPerfMap_Path(void);
extern const char *_PyPerfJitdump_Path(void);

/* Address space that a symbol takes once perf has injected its unwind
 * information: see the drawing in Python/perf_jitdump.c. */
#define _PyPerfJitdump_LABEL_ROOM 128

/* And behind each function that makes areas: see Python/asm_trampoline_*.S. */
#define _PyPerfJitdump_AREA_ROOM 192

/* --- For the specialiser and the evaluators ------------------------------ */

#ifdef PY_HAVE_PERF_TRAMPOLINE
/* The frame evaluation function (PEP 523) that is installed while the
 * trampoline is on and no other tool's evaluator has to be called.  Python to
 * Python calls may be inlined under it. */
extern PyObject *_PyPerfTrampoline_EvalFrame(
    PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag);

/* The same while lines are shown. */
extern PyObject *_PyPerfTrampoline_EvalLines(
    PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag);

#  define _PyPerfTrampoline_IS_EVALUATOR(eval_frame) \
       ((eval_frame) == _PyPerfTrampoline_EvalFrame \
        || (eval_frame) == _PyPerfTrampoline_EvalLines)
#else
#  define _PyPerfTrampoline_IS_EVALUATOR(eval_frame) 0
#endif

/* Forward an exception thrown into a generator to the one that it delegates
 * to, by throw(); frame, the first one's, is in the stack meanwhile, without
 * an evaluator.  Return the result of throw(). */
typedef PyObject *_PyPerf_throwfunc(PyGenObject *generator,
                                    int close_on_genexit, PyObject *type,
                                    PyObject *value, PyObject *traceback);
extern PyObject *_PyPerfTrampoline_Throw(
    struct _PyInterpreterFrame *frame, _PyPerf_throwfunc *throw,
    PyGenObject *generator, int close_on_genexit, PyObject *type,
    PyObject *value, PyObject *traceback);

/* Does an evaluator stand in the way of specialising calls? */
#define _PyPerfTrampoline_FOREIGN_EVALUATOR(interp) \
    ((interp)->eval_frame != NULL \
     && !_PyPerfTrampoline_IS_EVALUATOR((interp)->eval_frame))

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_TRAMPOLINE_H */
