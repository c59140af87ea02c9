#ifndef Py_INTERNAL_PERF_REQUEST_H
#define Py_INTERNAL_PERF_REQUEST_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

/* What another process asks for, by writing into this one: to name the Python
 * functions for a time (Python/perf_request.c).  Bases that can be asked
 * otherwise, from 3.14 on, have none of it. */

#include "pycore_perf_base.h"

#if defined(PY_HAVE_PERF_TRAMPOLINE) && defined(_PyPerfBase_SAFE_POINT)

#include "pycore_ceval.h"         // what the facts need
#include "pycore_interp.h"

#include <stdint.h>

/* Writing value to the byte at this place makes an evaluator come to a safe
 * point soon, whatever was there.  Place 0: there is none. */
typedef struct {
    uint32_t place;
    uint32_t value;
} _PyPerf_Poke;

/* In wanted.  To ON, what to show is added: see _PyPerf_Detail. */
enum {_PyPerfRequest_NOTHING, _PyPerfRequest_OFF, _PyPerfRequest_ON};

/* The layout is that of version; Lib/perfpy/request.py reads and writes it. */
typedef struct {
    char magic[16];
    uint32_t version;
    uint32_t size;

    /* Where to poke. */
    const void *interpreters;       /* the address of the first one's */
    uint32_t next_interpreter;      /* offsets of pointers */
    uint32_t first_thread;
    uint32_t next_thread;
    _PyPerf_Poke of_thread;
    _PyPerf_Poke of_interpreter[2]; /* one after the other */

    /* Written by who asks, a byte at a time. */
    uint8_t wanted;
    uint8_t is_poking;

    /* Written here, and reset by who asks before it does. */
    uint8_t is_refused;             /* by the user of this process */
    uint8_t is_serving;
    uint32_t served;                /* interpreters */
    uint32_t has_failed;            /* the text says why */
    uint32_t length;                /* of the text */
    uint32_t left_out;              /* of it: functions */
    char text[8192];                /* symbols of what runs since before, a
                                       line for each */
} _PyPerf_Request;

PyAPI_DATA(_PyPerf_Request) _PyPerfRequest;

/* A thread that has come to a safe point serves its interpreter. */
extern void _PyPerfRequest_Serve(PyThreadState *tstate);

/* A thread has taken the GIL, and shall come to a safe point if anybody asks
 * for one. */
static inline void
_PyPerfRequest_Remind(PyThreadState *tstate)
{
    if (__atomic_load_n(&_PyPerfRequest.wanted, __ATOMIC_RELAXED)
        != _PyPerfRequest_NOTHING) {
        _PyPerfBase_BREAK(tstate);
    }
}

/* Memory into which one may poke has been taken out of the lists, and is about
 * to be freed. */
extern void _PyPerfRequest_BeforeFree(void);

/* Obey nobody. */
extern void _PyPerfRequest_Refuse(void);

#else

#  define _PyPerfRequest_Refuse() ((void)0)

#endif

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_REQUEST_H */
