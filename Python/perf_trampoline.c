/* The perf trampoline: the life of native profiling in a process.
 *
 * Switched on and off by Python/perf_sys.c (sys functions, -X perf, the
 * environment), told of forks by posixmodule.c and of the end by
 * pylifecycle.c.  Everything here runs with a thread state.
 *
 * The back end, which writes symbols to a file, and the labels are shared by
 * the process, whose interpreters may have a GIL each, or none: they are used
 * and changed under _PyPerfProcess_Lock().  Python/perf_hook.c keeps what
 * belongs to an interpreter.
 *
 * Fork: the child closes its parent's file and, if any interpreter is on,
 * lists all inherited symbols in a file of its own when it calls its first
 * function.  A child that nobody told of the fork does so before it adds a
 * symbol.  Failure: activation reports
 * it; later, one line on stderr, and the program runs on with nameless
 * functions.  The program's pending exception is never touched.
 *
 * Sealed: for programs that are about to lose the right to make system calls,
 * and would be killed for one.  What is new waits in memory for the next
 * activation, if there is to be one.
 */

#include "Python.h"
#include "pycore_ceval.h"
#include "pycore_frame.h"
#include "pycore_interp.h"
#include "pycore_perf_base.h"
#include "pycore_perf_hook.h"
#include "pycore_perf_labels.h"
#include "pycore_perf_lines.h"
#include "pycore_perf_process.h"
#include "pycore_perf_trampoline.h"
#include "pycore_pystate.h"

#include <errno.h>
#include <limits.h>               // PATH_MAX
#include <stdbool.h>
#include <unistd.h>               // getpid()

/* For so long symbols may wait for others that are made at start-up. */
#define MAX_HOLD_NANOSECONDS (20 * 1000 * 1000)

/* So much CPU time a forked child may have used when symbols that its fork
   handlers make still wait for the first call after them. */
#define MAX_HANDLER_NANOSECONDS (20 * 1000 * 1000)

/* --- Back ends ----------------------------------------------------------- */

typedef struct {
    const char *name;
    uint32_t label_room;        /* address space for each symbol */
    _PyPerf_AreaCode area_code;
    int (*open)(void);
    int (*write)(void);         /* all symbols that the file lacks */
    void (*close)(void);
    bool (*is_shared)(void);
    void (*after_fork_child)(void);
    const char *(*path)(void);
} BackEnd;

static int
write_map(void)
{
    int result = _PyPerfMap_WriteText(_PyPerfLabels_Text());
    return result == 0 ? _PyPerfMap_WriteLines(_PyPerfLabels_First())
                       : result;
}

static const BackEnd back_ends[] = {
    {
        .name = "perf",
        .label_room = _PyPerfLabels_SIZE,
        .area_code = {_PyPerf_EnterArea, _PyPerf_ShareArea},
        .open = _PyPerfMap_Open,
        .write = write_map,
        .close = PyUnstable_PerfMapState_Fini,
        .is_shared = _PyPerfMap_IsShared,
        .after_fork_child = _PyPerfMap_AfterFork_Child,
        .path = _PyPerfMap_Path,
    },
    {
        .name = "perf_jit",
        .label_room = _PyPerfJitdump_LABEL_ROOM,
        .area_code = {_PyPerf_EnterAreaWithUnwindInfo,
                      _PyPerf_ShareAreaWithUnwindInfo},
        .open = _PyPerfJitdump_Open,
        .write = _PyPerfJitdump_WriteSymbols,
        .close = _PyPerfJitdump_Close,
        .is_shared = _PyPerfJitdump_IsShared,
        .after_fork_child = _PyPerfJitdump_AfterFork_Child,
        .path = _PyPerfJitdump_Path,
    },
};

static struct {
    const BackEnd *back_end;    /* NULL: no interpreter was ever on, or the
                                   runtime has ended */
    int details;                /* see _PyPerf_Detail */
    uint64_t process;           /* the stamp of the one whose file that is */
    bool has_warned;
    bool is_sealed;
    struct {
        bool is_active;
        bool is_only_for_imports;
        uint64_t since;         /* CLOCK_MONOTONIC, nanoseconds */
    } hold;                     /* see may_wait() */
    pid_t pid;                  /* the number that process had */
    struct {
        bool has_no_file;       /* ...yet, and is to get one */
        bool runs_handlers;     /* of the program, for forks */
        bool has_symbols;       /* that its parent has not */
    } child;
} trampoline;

static const BackEnd *
find_back_end(const char *name)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(back_ends); i++) {
        if (strcmp(back_ends[i].name, name) == 0) {
            return &back_ends[i];
        }
    }
    return NULL;
}

/* Make sure that the file is there and has all symbols.  Return 0, or -1 with
   errno. */
static int
complete_file(const BackEnd *back_end)
{
    if (back_end->open() < 0) {
        return -1;
    }
    _PyPerfLabels_TakeArena(!back_end->is_shared());
    return back_end->write();
}

/* Write what the file in use lacks.  A forked child gets its file now. */
static int
write_symbols(void)
{
    if (!trampoline.child.has_no_file) {
        return trampoline.back_end->write();
    }
    trampoline.child.has_no_file = false;
    _PyPerfHook_AwaitNoCall();
    return complete_file(trampoline.back_end);
}

/* Errors that concern the directory, and so all processes of a family. */
static bool
is_about_directory(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES
           || error == EPERM || error == EROFS;
}

/* Say once that symbols are missing, and why. */
static void
warn(int error)
{
    char line[PATH_MAX + 200];
    if (trampoline.has_warned) {
        return;
    }
    trampoline.has_warned = true;
    if (!is_about_directory(error) || _PyPerfProcess_IsFirstInFamily(error)) {
        PyOS_snprintf(line, sizeof(line),
                      "python: profilers will not know some functions by "
                      "name: '%s': %s\n",
                      trampoline.back_end->path(), strerror(error));
        _PyPerfProcess_Warn(line);
    }
}

static void
write_or_warn(void)
{
    if (write_symbols() < 0) {
        warn(errno);
    }
}

static bool is_on_anywhere(void);

/* This is a forked child.  If an interpreter is on, it is to get a file.
   Return whether that is the parent's, because it has the same number. */
static bool
leave_parent(void)
{
    const pid_t parent = trampoline.pid;
    trampoline.pid = getpid();
    _PyPerfProcess_AfterFork_Child();
    for (size_t i = 0; i < Py_ARRAY_LENGTH(back_ends); i++) {
        back_ends[i].after_fork_child();
    }
    _PyPerfLabels_AfterFork_Child();
    trampoline.process = _PyPerfProcess_Stamp();
    trampoline.has_warned = false;
    if (!is_on_anywhere()) {
        trampoline.back_end = NULL;
    }
    trampoline.child.has_no_file = trampoline.back_end != NULL;
    trampoline.child.runs_handlers = false;
    return trampoline.pid == parent;
}

/* C programs fork without telling Python: uWSGI, unless asked to.  Called
   before an addition, or two children would name one address differently. */
static void
notice_fork(void)
{
    if (trampoline.back_end != NULL
        && trampoline.process != _PyPerfProcess_Stamp()) {
        (void)leave_parent();
        if (trampoline.back_end != NULL) {
            write_or_warn();
        }
    }
}

/* --- Labels -------------------------------------------------------------- */

static bool
is_from(PyCodeObject *code, const char *prefix)
{
    PyObject *name = code->co_filename;
    return PyUnicode_IS_ASCII(name)
           && strncmp((const char *)PyUnicode_1BYTE_DATA(name), prefix,
                      strlen(prefix)) == 0;
}

/* May the symbol wait for others?  Start-up consists of frozen modules.
   Anything else that is started by it may take its time, never come to an end,
   and call what is frozen; but importing modules is a matter of moments. */
static bool
may_wait(PyCodeObject *code, const _PyPerfSymbol *symbol)
{
    if (!is_from(code, "<frozen ")) {
        trampoline.hold.is_only_for_imports = true;
        return false;
    }
    const uint64_t held_for = symbol->made - trampoline.hold.since;
    return held_for < MAX_HOLD_NANOSECONDS
           && (!trampoline.hold.is_only_for_imports
               || is_from(code, "<frozen importlib."));
}

/* Has the new symbol, of code or, with NULL, of a task, to be written now? */
static bool
has_to_be_written(PyCodeObject *code, const _PyPerfSymbol *symbol)
{
    /* The last objects of a runtime die after its files are closed. */
    if (trampoline.back_end == NULL || trampoline.is_sealed) {
        return false;
    }
    if (trampoline.child.runs_handlers) {
        trampoline.child.has_symbols = true;
        return _PyPerfProcess_CPUTime() >= MAX_HANDLER_NANOSECONDS;
    }
    return code == NULL || !trampoline.hold.is_active
           || !may_wait(code, symbol);
}

/* Announce the symbol of code, with lines if they are wanted, unless it has
   been.  Return 0, or -1 with errno.  The caller holds the lock. */
static int
announce(PyCodeObject *code, bool with_lines)
{
    const _PyPerfSymbol *new_symbol;
    if (!trampoline.is_sealed) {
        notice_fork();
    }
    int result = _PyPerfLabels_Assign(code, with_lines, &new_symbol);
    if (new_symbol != NULL && has_to_be_written(code, new_symbol)) {
        result = write_symbols();
    }
    return result;
}

/* The same for a task, whose label is in *offset then. */
static int
announce_task(PyObject *name, _PyPerf_offset *offset)
{
    const _PyPerfSymbol *new_symbol;
    if (!trampoline.is_sealed) {
        notice_fork();
    }
    int result = _PyPerfLabels_OfTask(name, offset, &new_symbol);
    if (new_symbol != NULL && has_to_be_written(NULL, new_symbol)) {
        result = write_symbols();
    }
    return result;
}

int
_PyPerfTrampoline_Announce(PyCodeObject *code)
{
    _PyPerfProcess_Lock();
    int result = announce(code, (trampoline.details & _PyPerf_LINES) != 0);
    _PyPerfProcess_Unlock();
    return result;
}

#ifdef _Py_JIT
void
_PyPerfTrampoline_AnnounceJitCode(const char *name, const void *code,
                                  size_t code_size,
                                  const unsigned char *eh_frame,
                                  size_t eh_frame_size)
{
    _PyPerfProcess_Lock();
    if (trampoline.back_end != NULL && !trampoline.is_sealed) {
        notice_fork();
    }
    if (trampoline.back_end != NULL
        && trampoline.back_end->open == _PyPerfJitdump_Open
        && !trampoline.is_sealed && !trampoline.child.has_no_file
        && _PyPerfJitdump_WriteCode(name, code, code_size, eh_frame,
                                    eh_frame_size) < 0) {
        warn(errno);
    }
    _PyPerfProcess_Unlock();
}
#endif

/* Say why symbols are missing, if the program expects that they are not. */
static void
warn_if_used(void)
{
    if (trampoline.back_end != NULL && !trampoline.is_sealed) {
        warn(errno);
    }
}

/* Return the offset of code's label. */
static Py_NO_INLINE _PyPerf_offset
label_for_the_first_time(PyCodeObject *code, bool with_lines)
{
    int error = errno;
    _PyPerfProcess_Lock();
    if (announce(code, with_lines) < 0) {
        warn_if_used();
    }
    _PyPerfProcess_Unlock();
    errno = error;
    return _PyCode_Label(code);
}

uintptr_t
_PyPerfTrampoline_TaskLabel(PyObject *name)
{
    int error = errno;
    _PyPerf_offset offset;
    _PyPerfProcess_Lock();
    if (announce_task(name, &offset) < 0) {
        warn_if_used();
    }
    _PyPerfProcess_Unlock();
    errno = error;
    return _PyPerfLabels_base + offset;
}

uintptr_t
_PyPerfTrampoline_Label(PyCodeObject *code)
{
    _PyPerf_offset offset = _PyCode_Label(code);
    if (offset == 0) {
        offset = label_for_the_first_time(code, false);
    }
    return _PyPerfLabels_base + offset;
}

uintptr_t
_PyPerfTrampoline_LineLabel(_PyInterpreterFrame *frame)
{
    PyCodeObject *code = _PyPerfBase_CODE(frame);
    _PyPerf_offset offset = _PyCode_Label(code);
    if (!_PyPerfLabels_IsAssigned(offset, true)) {
        offset = label_for_the_first_time(code, true);
    }
    return _PyPerfLines_SHOWN(offset)
           ? _PyPerfLines_Label(offset, _PyPerfBase_BYTECODE(frame),
                                _PyPerfBase_SHOWN_INSTRUCTION(frame))
           : _PyPerfLabels_base + offset;
}

static bool
is_on_anywhere(void)
{
    PyInterpreterState *interp = PyInterpreterState_Head();
    while (interp != NULL && !_PyPerfHook_IsInstalled(interp)) {
        interp = PyInterpreterState_Next(interp);
    }
    return interp != NULL;
}

/* --- On and off ---------------------------------------------------------- */

/* Keep the path of a file, which other threads may change.  The caller holds
   the lock. */
static void
copy_path(char path[PATH_MAX], const BackEnd *back_end)
{
    PyOS_snprintf(path, PATH_MAX, "%s", back_end->path());
}

static int
set_os_error(const char *path)
{
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
    return -1;
}

/* Close the file in use, with what has waited for others. */
static void
leave_back_end(void)
{
    if (trampoline.hold.is_active && !trampoline.child.has_no_file) {
        write_or_warn();
    }
    trampoline.back_end->close();
}

/* Make back_end the one in use and let it know all symbols.  If that fails,
   with errno, the one before stays in use. */
static int
use_back_end(const BackEnd *back_end)
{
    const bool is_in_use = trampoline.back_end == back_end;
    if (complete_file(back_end) < 0) {
        if (!is_in_use) {
            int error = errno;
            back_end->close();
            errno = error;
        }
        return -1;
    }
    if (!is_in_use && trampoline.back_end != NULL) {
        leave_back_end();
    }
    trampoline.back_end = back_end;
    trampoline.process = _PyPerfProcess_Stamp();
    trampoline.pid = getpid();
    trampoline.has_warned = false;
    trampoline.child.has_no_file = false;
    _PyPerfHook_AwaitNoCall();
    return 0;
}

int
_PyPerfTrampoline_Activate(PyThreadState *tstate, const char *name,
                           int details)
{
    char path[PATH_MAX];
    const BackEnd *back_end = find_back_end(name);
    if (back_end == NULL) {
        PyErr_Format(PyExc_ValueError, "invalid backend: %s", name);
        return -1;
    }
    _PyPerfProcess_Watch();
    _PyPerfProcess_Lock();
    trampoline.is_sealed = false;
    _PyPerfHook_Seal(false);
    _PyPerfLabels_Seal(false);
    notice_fork();
    const bool has_labels = _PyPerfLabels_Init(back_end->label_room) == 0;
    const bool is_ready = has_labels && use_back_end(back_end) == 0;
    if (is_ready) {
        trampoline.details = details;
        _PyPerfHook_UseAreas(&back_end->area_code,
                             (details & _PyPerf_NATIVE) != 0);
    }
    else {
        copy_path(path, back_end);
    }
    _PyPerfProcess_Unlock();
    if (!has_labels) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    if (!is_ready) {
        return set_os_error(path);
    }
    if (_PyPerfHook_Install(tstate->interp,
                            (details & _PyPerf_LINES) != 0) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

void
_PyPerfTrampoline_Deactivate(PyThreadState *tstate)
{
    _PyPerfHook_Remove(tstate->interp);
}

void
_PyPerfTrampoline_HoldSymbols(void)
{
    _PyPerfProcess_Lock();
    trampoline.hold.is_active = true;
    trampoline.hold.is_only_for_imports = false;
    trampoline.hold.since = _PyPerfLabels_Nanoseconds();
    _PyPerfProcess_Unlock();
}

void
_PyPerfTrampoline_ReleaseSymbols(void)
{
    _PyPerfProcess_Lock();
    if (trampoline.hold.is_active) {
        trampoline.hold.is_active = false;
        if (trampoline.back_end != NULL && !trampoline.is_sealed) {
            write_or_warn();
        }
    }
    _PyPerfProcess_Unlock();
}

int
_PyPerfTrampoline_Seal(void)
{
    char path[PATH_MAX];
    _PyPerfProcess_Lock();
    const bool has_failed = trampoline.back_end != NULL
                            && !trampoline.is_sealed
                            && complete_file(trampoline.back_end) < 0;
    if (has_failed) {
        copy_path(path, trampoline.back_end);
    }
    else {
        trampoline.hold.is_active = false;
        trampoline.child.has_no_file = false;
        _PyPerfHook_AwaitNoCall();
        _PyPerfHook_Seal(true);
        trampoline.is_sealed = true;
        _PyPerfLabels_Seal(true);
    }
    _PyPerfProcess_Unlock();
    return has_failed ? set_os_error(path) : 0;
}

int
_PyPerfTrampoline_IsSealed(void)
{
    _PyPerfProcess_Lock();
    int result = trampoline.is_sealed;
    _PyPerfProcess_Unlock();
    return result;
}

int
_PyPerfTrampoline_IsActive(PyThreadState *tstate)
{
    return _PyPerfHook_IsInstalled(tstate->interp);
}

const char *
_PyPerfTrampoline_BackEnd(int *details)
{
    _PyPerfProcess_Lock();
    const BackEnd *back_end = trampoline.back_end;
    *details = trampoline.details;
    _PyPerfProcess_Unlock();
    return back_end != NULL ? back_end->name : NULL;
}

void
_PyPerfTrampoline_AfterFork_Child(PyThreadState *Py_UNUSED(tstate))
{
    if (trampoline.is_sealed) {
        return;                 /* the next activation finds out */
    }
    const bool shares_file = leave_parent();
    if (trampoline.back_end == NULL) {
        return;
    }
    if (shares_file) {
        write_or_warn();        /* new labels must differ from the parent's */
        return;
    }
    trampoline.child.runs_handlers = true;
}

void
_PyPerfTrampoline_AfterForkHandlers_Child(void)
{
    trampoline.child.runs_handlers = false;
    if (trampoline.child.has_no_file) {
        _PyPerfHook_AwaitCall();
    }
}

void
_PyPerfTrampoline_FirstCall(void)
{
    int error = errno;
    _PyPerfProcess_Lock();
    if (trampoline.child.has_no_file && trampoline.back_end != NULL) {
        write_or_warn();
    }
    _PyPerfProcess_Unlock();
    errno = error;
}

static void
finish(void)
{
    if (trampoline.back_end == NULL || trampoline.is_sealed) {
        return;
    }
    /* What could not be written when it was new; but no file for a child that
       has called nothing. */
    if (!trampoline.child.has_no_file || trampoline.child.has_symbols) {
        (void)write_symbols();
    }
    trampoline.back_end->close();
    trampoline.back_end = NULL;
}

void
_PyPerfTrampoline_Fini(void)
{
    _PyPerfProcess_Lock();
    finish();
    _PyPerfProcess_Unlock();
}

/* --- Public functions; see Include/cpython/perf_trampoline.h ------------- */

int
PyUnstable_PerfTrampoline_CompileCode(PyCodeObject *code)
{
    _PyPerfBase_LOCK_INTERPRETERS();    /* other interpreters may end */
    const bool is_on = is_on_anywhere();
    _PyPerfBase_UNLOCK_INTERPRETERS();
    return is_on ? _PyPerfTrampoline_Announce(code) : 0;
}

int
PyUnstable_PerfTrampoline_SetPersistAfterFork(int enable)
{
    (void)enable;
    return _PyPerfBase_PERSIST_RESULT(enable);
}
