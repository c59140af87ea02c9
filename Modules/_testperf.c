/* Support for the tests of the perf trampoline: the calling thread's stack as
 * a native profiler sees it, and ways to get into Python that Python lacks.
 *
 * Used by Lib/test/test_perf_*.py; built for them by `make test`, not
 * installed.  Functions run with the GIL held unless they say otherwise.
 *
 * A profiler follows the frame pointers: each leads to a record {next frame
 * pointer, return address} at a higher address.  Code that keeps no frame
 * pointers, such as the C library that calls main(), ends the chain.
 */

#define _GNU_SOURCE 1
#ifndef Py_BUILD_CORE_MODULE
#  define Py_BUILD_CORE_MODULE 1
#endif

#include "Python.h"
#include "pycore_frame.h"         // _PyInterpreterFrame
#include "pycore_perf_arch.h"
#include "pycore_perf_base.h"
#include "pycore_perf_tasks.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>                 // dl_iterate_phdr()
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef _PyPerfArch_PC
#  error "pycore_perf_arch.h does not know this architecture"
#endif

#ifndef sigev_notify_thread_id
#  define sigev_notify_thread_id _sigev_un._tid
#endif

/* --- Native code --------------------------------------------------------- */

typedef struct {
    uintptr_t low, high;
    bool keeps_frame_pointers;
} Code;

/* The executable segments of the program and the libraries it has loaded.
   Addresses outside of them, in a walk, are labels.  A fixed table, because a
   signal handler reads it. */
static struct {
    Code items[1024];
    size_t length;
    unsigned long long loads;   /* how often libraries had come and gone */
} code;

/* Ours has the flags of the interpreter; distributions' has not.  Nor does a
   walk go through greenlet, whatever its flags: the frames on top of which a
   greenlet was started may be gone. */
static bool
is_our_code(const char *path)
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    if (strstr(path, "/dist-packages/") != NULL
        || strncmp(name, "_greenlet.", 10) == 0) {
        return false;
    }
    return *name == '\0'                    /* the program itself */
           || strncmp(name, "libpython", 9) == 0
           || strstr(name, ".cpython-") != NULL;
}

static int
add_code_of_library(struct dl_phdr_info *info, size_t Py_UNUSED(size),
                    void *first)
{
    unsigned long long loads = info->dlpi_adds + info->dlpi_subs;
    if (*(bool *)first) {
        if (loads == code.loads) {
            return 1;
        }
        *(bool *)first = false;
        code.loads = loads;
        code.length = 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X)
            && code.length < Py_ARRAY_LENGTH(code.items)) {
            Code *item = &code.items[code.length++];
            item->low = info->dlpi_addr + segment->p_vaddr;
            item->high = item->low + segment->p_memsz;
            item->keeps_frame_pointers = is_our_code(info->dlpi_name);
        }
    }
    return 0;
}

static void
find_code(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    bool first = true;
    sigset_t sampler, old;
    sigemptyset(&sampler);
    sigaddset(&sampler, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &sampler, &old);
    pthread_mutex_lock(&lock);
    dl_iterate_phdr(add_code_of_library, &first);
    pthread_mutex_unlock(&lock);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Return the native code that address is in, or NULL. */
static const Code *
code_at(uintptr_t address)
{
    for (size_t i = 0; i < code.length; i++) {
        if (address - code.items[i].low
            < code.items[i].high - code.items[i].low) {
            return &code.items[i];
        }
    }
    return NULL;
}

/* --- Walking ------------------------------------------------------------- */

typedef struct {
    uintptr_t next;
    uintptr_t return_address;
} Record;

#define MAX_RECORDS 1000000

/* Initial-exec: a signal handler must not be the first to allocate it. */
static __thread struct {
    uintptr_t low, high;        /* both 0: not known yet */
} stack __attribute__((tls_model("initial-exec")));

static int
find_stack(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;

    if (stack.high != 0) {
        return 0;
    }
    int error = pthread_getattr_np(pthread_self(), &attributes);
    if (error == 0) {
        error = pthread_attr_getstack(&attributes, &low, &size);
        pthread_attr_destroy(&attributes);
    }
    if (error != 0) {
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    stack.low = (uintptr_t)low;
    stack.high = stack.low + size;
    return 0;
}

/* Why frame_pointer leads to no record; previous is the record before.
   NULL: there is one. */
static const char *
not_a_record(uintptr_t frame_pointer, uintptr_t previous)
{
    if (frame_pointer == 0) {
        return "null";
    }
    if (frame_pointer % sizeof(void *) != 0) {
        return "misaligned";
    }
    uintptr_t record =
        (uintptr_t)_PyPerfArch_RECORD((const Record *)frame_pointer);
    if (record < stack.low || record > stack.high - sizeof(Record)) {
        return "outside the stack";
    }
    if (frame_pointer <= previous) {
        return "not ascending";
    }
    return NULL;
}

/* Call visit with each return address until it returns non-zero.
   Return why the walk ended.  Safe in a signal handler. */
static const char *
walk_from(uintptr_t frame_pointer, int (*visit)(uintptr_t, void *), void *arg)
{
    uintptr_t previous = 0;
    for (int i = 0; i < MAX_RECORDS; i++) {
        const char *reason = not_a_record(frame_pointer, previous);
        if (reason != NULL) {
            return reason;
        }
        const Record *record =
            _PyPerfArch_RECORD((const Record *)frame_pointer);
        if (visit(_PyPerfArch_PlainAddress(record->return_address), arg)
            != 0) {
            return "stopped";
        }
        previous = frame_pointer;
        frame_pointer = record->next;
    }
    return "too long";
}

static int
append_address(uintptr_t address, void *list)
{
    PyObject *number = PyLong_FromUnsignedLongLong(address);
    if (number == NULL) {
        return -1;
    }
    int result = PyList_Append(list, number);
    Py_DECREF(number);
    return result;
}

/* Code without frame pointers ends a walk: what its frame pointer register
   happened to hold does not count. */
static int
append_label(uintptr_t address, void *list)
{
    const Code *here = code_at(address);
    if (here != NULL) {
        return here->keeps_frame_pointers ? 0 : 1;
    }
    return append_address(address, list);
}

static PyObject *
list_of_walk(uintptr_t frame_pointer, int (*append)(uintptr_t, void *),
             const char **reason)
{
    if (find_stack() < 0) {
        return NULL;
    }
    find_code();
    PyObject *list = PyList_New(0);
    if (list == NULL) {
        return NULL;
    }
    *reason = walk_from(frame_pointer, append, list);
    if (PyErr_Occurred()) {
        Py_CLEAR(list);
    }
    return list;
}

PyDoc_STRVAR(walk_doc,
"walk() -> (addresses, reason)\n"
"\n"
"Return addresses by frame pointers, innermost first, and why there are no\n"
"more: 'null', 'misaligned', 'outside the stack', 'not ascending' or\n"
"'too long'.");

static PyObject *
testperf_walk(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    const char *reason;
    PyObject *list = list_of_walk((uintptr_t)__builtin_frame_address(0),
                                  append_address, &reason);
    return list == NULL ? NULL : Py_BuildValue("Ns", list, reason);
}

PyDoc_STRVAR(labels_doc,
"labels() -> addresses\n"
"\n"
"Those of walk() that lie in no loaded file, up to the first in code without\n"
"frame pointers, such as the C library's.");

static PyObject *
testperf_labels(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    const char *reason;
    return list_of_walk((uintptr_t)__builtin_frame_address(0), append_label,
                        &reason);
}

PyDoc_STRVAR(python_stack_doc,
"python_stack() -> code objects\n"
"\n"
"Of the running functions, innermost first.  Unlike sys._getframe() this\n"
"makes no frame objects, so the functions are left as they were.");

static PyObject *
testperf_python_stack(PyObject *Py_UNUSED(module),
                      PyObject *Py_UNUSED(ignored))
{
    PyObject *list = PyList_New(0);
    if (list == NULL) {
        return NULL;
    }
    _PyInterpreterFrame *frame = _PyPerfBase_Function(
        _PyPerfBase_CURRENT_FRAME(PyThreadState_Get()));
    for (; frame != NULL; frame = _PyPerfBase_Function(frame->previous)) {
        if (PyList_Append(list, (PyObject *)_PyPerfBase_CODE(frame)) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

PyDoc_STRVAR(labels_and_lines_doc,
"labels_and_lines() -> (addresses, [(code object, line or None), ...])\n"
"\n"
"What labels() returns and, of all running functions, what frame.f_lineno\n"
"says at that moment.");

static int
append_line(PyObject *list, PyFrameObject *frame)
{
    PyObject *line = PyObject_GetAttrString((PyObject *)frame, "f_lineno");
    PyObject *item = line == NULL ? NULL
                     : Py_BuildValue("NN", PyFrame_GetCode(frame), line);
    int result = item == NULL ? -1 : PyList_Append(list, item);
    Py_XDECREF(item);
    return result;
}

static PyObject *
testperf_labels_and_lines(PyObject *Py_UNUSED(module),
                          PyObject *Py_UNUSED(ignored))
{
    const char *reason;
    PyObject *labels = list_of_walk((uintptr_t)__builtin_frame_address(0),
                                    append_label, &reason);
    PyObject *lines = labels == NULL ? NULL : PyList_New(0);
    if (lines == NULL) {
        Py_XDECREF(labels);
        return NULL;
    }
    int result = 0;
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame != NULL && result == 0) {
        PyFrameObject *back = PyFrame_GetBack(frame);
        result = append_line(lines, frame);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    if (result < 0) {
        Py_DECREF(labels);
        Py_DECREF(lines);
        return NULL;
    }
    return Py_BuildValue("NN", labels, lines);
}

PyDoc_STRVAR(stack_pointer_doc,
"stack_pointer() -> address\n"
"\n"
"About where the C stack of this thread ends at the moment.");

static PyObject *
testperf_stack_pointer(PyObject *Py_UNUSED(module),
                       PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromVoidPtr(__builtin_frame_address(0));
}

/* --- Sampling ------------------------------------------------------------ */

/* Walks of one thread, made in a signal handler.  Only that thread's handler
   changes this while the timer runs. */
static struct {
    bool is_running;
    timer_t timer;
    struct sigaction old_action;
    uintptr_t area_low, area_high;      /* _PyPerf_EnterArea() */
    unsigned long walks;
    unsigned long elsewhere;    /* interruptions of code without frame
                                   pointers, or what it has just called */
    unsigned long bad;
    const char *bad_reasons[16];
    uintptr_t bad_addresses[16];        /* where each was interrupted */
    struct {
        uintptr_t address;
        unsigned long innermost;        /* how often it was the first label */
    } labels[1 << 14];                  /* a hash table */
    unsigned long unlabelled;           /* walks without any label */
    unsigned long lost_labels;          /* the table was full */
    PyThreadState *tstate;
    struct {
        uintptr_t label;                /* the innermost */
        const PyCodeObject *code;       /* what the interpreter says instead */
        ptrdiff_t instruction;          /* its offset in the code, in bytes */
    } newest[1 << 12];                  /* the first walks with a label */
    size_t newest_count;
} sampler;

static void
count_label(uintptr_t address, bool is_innermost)
{
    const size_t size = Py_ARRAY_LENGTH(sampler.labels);
    size_t hash = (address >> 4) % size;
    for (size_t i = 0; i < size; i++) {
        size_t index = (hash + i) % size;
        if (sampler.labels[index].address == 0) {
            sampler.labels[index].address = address;
        }
        if (sampler.labels[index].address == address) {
            sampler.labels[index].innermost += is_innermost;
            return;
        }
    }
    sampler.lost_labels++;
}

/* Whose label should it be, and which instruction's?  Between any two of the
   evaluator's instructions, its frame can be read but need not be right. */
static void
note_innermost(uintptr_t label)
{
    const _PyInterpreterFrame *frame = _PyPerfBase_Function(
        _PyPerfBase_CURRENT_FRAME(sampler.tstate));
    if (frame == NULL
        || sampler.newest_count == Py_ARRAY_LENGTH(sampler.newest)) {
        return;
    }
    PyCodeObject *code = _PyPerfBase_CODE(frame);
    const size_t i = sampler.newest_count++;
    sampler.newest[i].label = label;
    sampler.newest[i].code = code;
    sampler.newest[i].instruction =
        (char *)_PyPerfBase_SHOWN_INSTRUCTION(frame)
        - (char *)_PyCode_CODE(code);
}

typedef struct {
    uintptr_t last;             /* the address before this one */
    const Code *last_code;      /* what it is in; NULL: it is a label */
    int position;
    int labels;
    bool area_is_missing;
} SampledWalk;

static int
sample_address(uintptr_t address, void *arg)
{
    SampledWalk *walk = arg;
    const Code *here = code_at(address);
    walk->position++;
    if (here == NULL) {
        if (walk->labels == 0) {
            note_innermost(address);
        }
        count_label(address, walk->labels++ == 0);
        /* Labels follow the code that made their area.  At the very top it
           may be missing: while the evaluator sets up its stack frame. */
        if (walk->last_code != NULL && walk->position > 1
            && walk->last - sampler.area_low
               >= sampler.area_high - sampler.area_low) {
            walk->area_is_missing = true;
        }
    }
    walk->last = address;
    walk->last_code = here;
    return here != NULL && !here->keeps_frame_pointers;
}

static void
count_bad_walk(const char *reason, uintptr_t address)
{
    if (sampler.bad < Py_ARRAY_LENGTH(sampler.bad_reasons)) {
        sampler.bad_reasons[sampler.bad] = reason;
        sampler.bad_addresses[sampler.bad] = address;
    }
    sampler.bad++;
}

/* Interrupted is code of ours that keeps no record. */
static bool
is_leaf_without_record(uintptr_t frame_pointer)
{
#ifdef _PyPerfArch_LEAVES_LACK_RECORDS
    if (not_a_record(frame_pointer, 0) == NULL) {
        const Record *record =
            _PyPerfArch_RECORD((const Record *)frame_pointer);
        return record->return_address > frame_pointer
               && not_a_record(record->return_address, 0) == NULL;
    }
#endif
    return false;
}

static void
sample(int Py_UNUSED(signal), siginfo_t *Py_UNUSED(info), void *ucontext)
{
    const ucontext_t *context = ucontext;
    uintptr_t address = (uintptr_t)_PyPerfArch_PC(context);
    uintptr_t frame_pointer = (uintptr_t)_PyPerfArch_FP(context);
    const Code *here = code_at(address);

    if (here == NULL || !here->keeps_frame_pointers
        || is_leaf_without_record(frame_pointer)) {
        sampler.elsewhere++;
        return;
    }
    /* The register still belongs to the caller, who may use it otherwise. */
    const Code *caller =
        code_at((uintptr_t)_PyPerfArch_ReturnAddress(context));
    if (caller != NULL && !caller->keeps_frame_pointers) {
        sampler.elsewhere++;
        return;
    }
    SampledWalk walk = {.last = address, .last_code = here};
    const char *reason = walk_from(frame_pointer, sample_address, &walk);
    sampler.walks++;
    if (walk.labels == 0) {
        sampler.unlabelled++;
    }
    if (walk.last_code == NULL) {
        count_bad_walk("ended at a label", address);
    }
    else if (walk.last_code->keeps_frame_pointers) {
        count_bad_walk(reason, address);
    }
    else if (walk.area_is_missing) {
        count_bad_walk("labels without an area", address);
    }
}

static void
disarm_sampler(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    timer_delete(sampler.timer);
    sigaction(SIGPROF, &ignore, NULL);          /* drops a pending signal */
    sigaction(SIGPROF, &sampler.old_action, NULL);
    sampler.is_running = false;
}

PyDoc_STRVAR(start_sampler_doc,
"start_sampler(hz, area_low, area_high, cpu_time=False)\n"
"\n"
"Walk the calling thread's stack hz times a second, in a handler of SIGPROF.\n"
"Of its CPU time if cpu_time, then at most as often as the kernel's clock\n"
"ticks; else of real time, and whenever it gets a processor again.\n"
"The addresses are those of the machine code of _PyPerf_EnterArea().");

static PyObject *
testperf_start_sampler(PyObject *Py_UNUSED(module), PyObject *args)
{
    long hz;
    unsigned long long low, high;
    int cpu_time = 0;
    if (!PyArg_ParseTuple(args, "lKK|p:start_sampler", &hz, &low, &high,
                          &cpu_time)) {
        return NULL;
    }
    if (hz < 1 || hz > 1000000) {
        PyErr_SetString(PyExc_ValueError, "hz must be in 1..1000000");
        return NULL;
    }
    if (sampler.is_running) {
        PyErr_SetString(PyExc_RuntimeError, "the sampler is running");
        return NULL;
    }
    if (find_stack() < 0) {
        return NULL;
    }
    find_code();
    memset(&sampler, 0, sizeof(sampler));
    sampler.area_low = (uintptr_t)low;
    sampler.area_high = (uintptr_t)high;
    sampler.tstate = PyThreadState_Get();

    struct sigaction action = {.sa_sigaction = sample,
                               .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID,
                             .sigev_signo = SIGPROF};
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    long interval = 1000000000L / hz;
    struct timespec period = {.tv_sec = interval / 1000000000L,
                              .tv_nsec = interval % 1000000000L};
    struct itimerspec times = {.it_interval = period, .it_value = period};
    clockid_t clock = cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    if (timer_create(clock, &event, &sampler.timer) != 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    sampler.is_running = true;
    if (sigaction(SIGPROF, &action, &sampler.old_action) != 0
        || timer_settime(sampler.timer, 0, &times, NULL) != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        disarm_sampler();
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
sampled_labels(void)
{
    PyObject *labels = PyDict_New();
    for (size_t i = 0; labels && i < Py_ARRAY_LENGTH(sampler.labels); i++) {
        if (sampler.labels[i].address == 0) {
            continue;
        }
        PyObject *key = PyLong_FromUnsignedLongLong(sampler.labels[i].address);
        PyObject *count = PyLong_FromUnsignedLong(sampler.labels[i].innermost);
        if (!key || !count || PyDict_SetItem(labels, key, count) < 0) {
            Py_CLEAR(labels);
        }
        Py_XDECREF(key);
        Py_XDECREF(count);
    }
    return labels;
}

static PyObject *
sampled_newest(void)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < sampler.newest_count; i++) {
        PyObject *item = Py_BuildValue(
            "KKn", (unsigned long long)sampler.newest[i].label,
            (unsigned long long)(uintptr_t)sampler.newest[i].code,
            (Py_ssize_t)sampler.newest[i].instruction);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *
sampled_bad_walks(void)
{
    PyObject *bad = PySet_New(NULL);
    for (size_t i = 0; bad != NULL && i < sampler.bad
                       && i < Py_ARRAY_LENGTH(sampler.bad_reasons); i++) {
        PyObject *item = Py_BuildValue(
            "sK", sampler.bad_reasons[i],
            (unsigned long long)sampler.bad_addresses[i]);
        if (item == NULL || PySet_Add(bad, item) < 0) {
            Py_CLEAR(bad);
        }
        Py_XDECREF(item);
    }
    return bad;
}

PyDoc_STRVAR(stop_sampler_doc,
"stop_sampler() -> dict\n"
"\n"
"walks: how many, without those that interrupted code without\n"
"frame pointers, or a function that such code had called and\n"
"that had no record yet\n"
"elsewhere: how many of those\n"
"unlabelled: walks that met no label\n"
"labels: {label: how often it was the innermost}, of all labels met\n"
"lost_labels: how many there was no room to remember\n"
"newest: of the first walks, the innermost label, and what the interpreter\n"
"runs: the id of a code object and the offset of an instruction\n"
"bad: how many walks went wrong\n"
"bad_walks: {(what went wrong, address interrupted)} of the first few");

static PyObject *
testperf_stop_sampler(PyObject *Py_UNUSED(module),
                      PyObject *Py_UNUSED(ignored))
{
    if (!sampler.is_running) {
        PyErr_SetString(PyExc_RuntimeError, "the sampler is not running");
        return NULL;
    }
    disarm_sampler();
    PyObject *labels = sampled_labels();
    PyObject *newest = labels == NULL ? NULL : sampled_newest();
    PyObject *bad_walks = newest == NULL ? NULL : sampled_bad_walks();
    if (bad_walks == NULL) {
        Py_XDECREF(labels);
        Py_XDECREF(newest);
        return NULL;
    }
    return Py_BuildValue("{sksksksNsNsksksN}",
                         "walks", sampler.walks,
                         "elsewhere", sampler.elsewhere,
                         "unlabelled", sampler.unlabelled,
                         "labels", labels,
                         "newest", newest,
                         "lost_labels", sampler.lost_labels,
                         "bad", sampler.bad,
                         "bad_walks", bad_walks);
}

/* --- Ways into Python ---------------------------------------------------- */

static Py_NO_INLINE PyObject *
call_below(PyObject *callable, int frames)
{
    PyObject *result = frames > 0 ? call_below(callable, frames - 1)
                                  : PyObject_CallNoArgs(callable);
    __asm__ volatile("" : : : "memory");        /* no tail call */
    return result;
}

PyDoc_STRVAR(call_doc,
"call(callable, frames=0)\n"
"\n"
"Call from C, below that many more C stack frames.");

static PyObject *
testperf_call(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *callable;
    int frames = 0;
    if (!PyArg_ParseTuple(args, "O|i:call", &callable, &frames)) {
        return NULL;
    }
    return call_below(callable, frames);
}

typedef struct {
    PyObject *callable;
    PyObject *result;
    PyObject *error_type, *error, *error_traceback;
} ThreadCall;

static void *
run_thread_call(void *arg)
{
    ThreadCall *call = arg;
    PyGILState_STATE state = PyGILState_Ensure();
    call->result = PyObject_CallNoArgs(call->callable);
    PyErr_Fetch(&call->error_type, &call->error, &call->error_traceback);
    PyGILState_Release(state);
    return NULL;
}

PyDoc_STRVAR(call_in_thread_doc,
"call_in_thread(callable, stack_size=0)\n"
"\n"
"Call in a thread that C creates.  0: with a stack of the default size.");

static PyObject *
testperf_call_in_thread(PyObject *Py_UNUSED(module), PyObject *args)
{
    ThreadCall call = {NULL};
    Py_ssize_t stack_size = 0;
    if (!PyArg_ParseTuple(args, "O|n:call_in_thread", &call.callable,
                          &stack_size)) {
        return NULL;
    }
    pthread_t thread;
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error == 0 && stack_size != 0) {
        error = pthread_attr_setstacksize(&attributes, (size_t)stack_size);
    }
    Py_BEGIN_ALLOW_THREADS
    if (error == 0) {
        error = pthread_create(&thread, &attributes, run_thread_call, &call);
    }
    if (error == 0) {
        error = pthread_join(thread, NULL);
    }
    Py_END_ALLOW_THREADS
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    PyErr_Restore(call.error_type, call.error, call.error_traceback);
    return call.result;
}

/* Another tool's evaluator (PEP 523): counts calls and passes them on to what
   was installed before it. */
static struct {
    _PyFrameEvalFunction before;        /* NULL: not installed */
    unsigned long calls;
} other_evaluator;

static PyObject *
count_and_evaluate(PyThreadState *tstate, _PyInterpreterFrame *frame,
                   int throwflag)
{
    (void)__atomic_add_fetch(&other_evaluator.calls, 1, __ATOMIC_RELAXED);
    return other_evaluator.before(tstate, frame, throwflag);
}

PyDoc_STRVAR(after_fork_child_doc,
"after_fork_child()\n"
"\n"
"Tell the interpreter of a fork, as a program does that embeds it.");

static PyObject *
testperf_after_fork_child(PyObject *Py_UNUSED(module),
                          PyObject *Py_UNUSED(ignored))
{
    /* What it undoes must have been done. */
    PyOS_BeforeFork();
    PyOS_AfterFork_Child();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(install_evaluator_doc,
"install_evaluator()\n"
"\n"
"Let an evaluator that counts calls stand before the one in place.");

static PyObject *
testperf_install_evaluator(PyObject *Py_UNUSED(module),
                           PyObject *Py_UNUSED(ignored))
{
    PyInterpreterState *interp = PyInterpreterState_Get();
    if (other_evaluator.before != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the evaluator is installed");
        return NULL;
    }
    other_evaluator.calls = 0;
    other_evaluator.before = _PyInterpreterState_GetEvalFrameFunc(interp);
    _PyInterpreterState_SetEvalFrameFunc(interp, count_and_evaluate);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(remove_evaluator_doc,
"remove_evaluator() -> number of calls\n"
"\n"
"Put back the evaluator that was in place before.");

static PyObject *
testperf_remove_evaluator(PyObject *Py_UNUSED(module),
                          PyObject *Py_UNUSED(ignored))
{
    if (other_evaluator.before == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the evaluator is not installed");
        return NULL;
    }
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(),
                                         other_evaluator.before);
    other_evaluator.before = NULL;
    return PyLong_FromUnsignedLong(other_evaluator.calls);
}

PyDoc_STRVAR(evaluator_calls_doc,
"evaluator_calls() -> number of calls so far");

static PyObject *
testperf_evaluator_calls(PyObject *Py_UNUSED(module),
                         PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLong(other_evaluator.calls);
}

PyDoc_STRVAR(evaluator_is_current_doc,
"evaluator_is_current() -> bool\n"
"\n"
"Is the evaluator that counts the one that tools are told of?");

static PyObject *
testperf_evaluator_is_current(PyObject *Py_UNUSED(module),
                              PyObject *Py_UNUSED(ignored))
{
    PyInterpreterState *interp = PyInterpreterState_Get();
    return PyBool_FromLong(_PyInterpreterState_GetEvalFrameFunc(interp)
                           == count_and_evaluate);
}

/* --- The public C API; see Include/cpython/perf_trampoline.h ------------- */

/* 0, or OSError if the function returned something else. */
static PyObject *
zero_or_os_error(int result)
{
    return result == 0 ? PyLong_FromLong(0)
                       : PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *
testperf_perf_map_state_init(PyObject *Py_UNUSED(module),
                             PyObject *Py_UNUSED(ignored))
{
    int result;
    Py_BEGIN_ALLOW_THREADS
    result = PyUnstable_PerfMapState_Init();
    Py_END_ALLOW_THREADS
    return zero_or_os_error(result);
}

static PyObject *
testperf_perf_map_state_fini(PyObject *Py_UNUSED(module),
                             PyObject *Py_UNUSED(ignored))
{
    Py_BEGIN_ALLOW_THREADS
    PyUnstable_PerfMapState_Fini();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *
testperf_write_perf_map_entry(PyObject *Py_UNUSED(module), PyObject *args)
{
    unsigned long long address;
    unsigned int size;
    PyObject *name;
    int result;
    if (!PyArg_ParseTuple(args, "KIO&:write_perf_map_entry", &address, &size,
                          PyUnicode_FSConverter, &name)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    result = PyUnstable_WritePerfMapEntry((const void *)(uintptr_t)address,
                                          size, PyBytes_AS_STRING(name));
    Py_END_ALLOW_THREADS
    Py_DECREF(name);
    return zero_or_os_error(result);
}

static PyObject *
testperf_copy_perf_map_file(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *path;
    int result;
    if (!PyArg_ParseTuple(args, "O&:copy_perf_map_file",
                          PyUnicode_FSConverter, &path)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    result = PyUnstable_CopyPerfMapFile(PyBytes_AS_STRING(path));
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    return zero_or_os_error(result);
}

static PyObject *
testperf_compile_code(PyObject *Py_UNUSED(module), PyObject *code_object)
{
    if (!PyCode_Check(code_object)) {
        PyErr_SetString(PyExc_TypeError, "a code object is required");
        return NULL;
    }
    return PyLong_FromLong(PyUnstable_PerfTrampoline_CompileCode(
        (PyCodeObject *)code_object));
}

static PyObject *
testperf_set_persist_after_fork(PyObject *Py_UNUSED(module), PyObject *enable)
{
    int is_true = PyObject_IsTrue(enable);
    if (is_true < 0) {
        return NULL;
    }
    return PyLong_FromLong(
        PyUnstable_PerfTrampoline_SetPersistAfterFork(is_true));
}

/* --- Tasks --------------------------------------------------------------- */

PyDoc_STRVAR(step_doc,
"step(task) -> what its coroutine yields\n"
"\n"
"Make a step of an object with the attributes _name and _coro, as an event\n"
"loop does of a task that is written in Python.");

static PyObject *
testperf_step(PyObject *Py_UNUSED(module), PyObject *task)
{
    PyObject *coroutine = PyObject_GetAttrString(task, "_coro");
    if (coroutine == NULL) {
        return NULL;
    }
    _PyPerfTasks_ENTER_OBJECT(task);
    PyObject *result = PyObject_CallMethod(coroutine, "send", "O", Py_None);
    _PyPerfTasks_LEAVE();
    Py_DECREF(coroutine);
    return result;
}

/* --- Faults; see Modules/_testperf_faults.c ------------------------------ */

PyDoc_STRVAR(stop_faults_doc,
"stop_faults()\n"
"\n"
"No call fails any more, if the library that lets calls fail is loaded.");

static PyObject *
testperf_stop_faults(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    void *stop = dlsym(RTLD_DEFAULT, "testperf_faults_stop");
    if (stop != NULL) {
        ((void (*)(void))stop)();
    }
    Py_RETURN_NONE;
}

/* --- The module ---------------------------------------------------------- */

static PyMethodDef testperf_methods[] = {
    {"walk", testperf_walk, METH_NOARGS, walk_doc},
    {"labels", testperf_labels, METH_NOARGS, labels_doc},
    {"python_stack", testperf_python_stack, METH_NOARGS, python_stack_doc},
    {"labels_and_lines", testperf_labels_and_lines, METH_NOARGS,
     labels_and_lines_doc},
    {"stack_pointer", testperf_stack_pointer, METH_NOARGS, stack_pointer_doc},
    {"start_sampler", testperf_start_sampler, METH_VARARGS, start_sampler_doc},
    {"stop_sampler", testperf_stop_sampler, METH_NOARGS, stop_sampler_doc},
    {"call", testperf_call, METH_VARARGS, call_doc},
    {"call_in_thread", testperf_call_in_thread, METH_VARARGS,
     call_in_thread_doc},
    {"install_evaluator", testperf_install_evaluator, METH_NOARGS,
     install_evaluator_doc},
    {"remove_evaluator", testperf_remove_evaluator, METH_NOARGS,
     remove_evaluator_doc},
    {"evaluator_calls", testperf_evaluator_calls, METH_NOARGS,
     evaluator_calls_doc},
    {"evaluator_is_current", testperf_evaluator_is_current, METH_NOARGS,
     evaluator_is_current_doc},
    {"after_fork_child", testperf_after_fork_child, METH_NOARGS,
     after_fork_child_doc},
    {"perf_map_state_init", testperf_perf_map_state_init, METH_NOARGS, NULL},
    {"perf_map_state_fini", testperf_perf_map_state_fini, METH_NOARGS, NULL},
    {"write_perf_map_entry", testperf_write_perf_map_entry, METH_VARARGS,
     PyDoc_STR("write_perf_map_entry(address, size, name) -> 0")},
    {"copy_perf_map_file", testperf_copy_perf_map_file, METH_VARARGS,
     PyDoc_STR("copy_perf_map_file(path) -> 0")},
    {"compile_code", testperf_compile_code, METH_O, NULL},
    {"set_persist_after_fork", testperf_set_persist_after_fork, METH_O, NULL},
    {"step", testperf_step, METH_O, step_doc},
    {"stop_faults", testperf_stop_faults, METH_NOARGS, stop_faults_doc},
    {NULL, NULL, 0, NULL},
};

#ifdef Py_GIL_DISABLED
static PyModuleDef_Slot testperf_slots[] = {
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
    {0, NULL},
};
#endif

static struct PyModuleDef testperf_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_testperf",
    .m_size = 0,
    .m_methods = testperf_methods,
#ifdef Py_GIL_DISABLED
    .m_slots = testperf_slots,
#endif
};

PyMODINIT_FUNC
PyInit__testperf(void)
{
    return PyModuleDef_Init(&testperf_module);
}
