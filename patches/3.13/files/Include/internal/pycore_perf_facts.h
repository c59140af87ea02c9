#ifndef Py_INTERNAL_PERF_FACTS_H
#define Py_INTERNAL_PERF_FACTS_H

/* The facts of CPython 3.13; included by pycore_perf_base.h, which says what
 * they are. */

#include "pycore_frame.h"         // _PyInterpreterFrame
#include "pycore_pyhash.h"        // _Py_HashBytes()

#define _PyPerfBase_HASH(bytes, length) _Py_HashBytes(bytes, length)
#define _PyPerfBase_ENTRY_OWNER FRAME_OWNED_BY_CSTACK
#define _PyPerfBase_ENTRY_FRAME entry_frame
#define _PyPerfBase_OBJECT(reference) (reference)
#define _PyPerfBase_REFERENCE(object) (object)
#define _PyPerfBase_GENERATOR_FRAME(generator) \
    ((_PyInterpreterFrame *)(generator)->gi_iframe)
#define _PyPerfBase_GENERATOR(frame) _PyFrame_GetGenerator(frame)

#endif /* !Py_INTERNAL_PERF_FACTS_H */
