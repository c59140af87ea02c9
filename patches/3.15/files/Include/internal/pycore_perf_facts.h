#ifndef Py_INTERNAL_PERF_FACTS_H
#define Py_INTERNAL_PERF_FACTS_H

/* The facts of CPython 3.15; included by pycore_perf_base.h, which says what
 * they are. */

#include "pycore_genobject.h"     // PyGenObject.gi_iframe
#include "pycore_interpframe.h"   // _PyInterpreterFrame
#include "pycore_optimizer.h"     // _Py_Executors_InvalidateAll()
#include "pycore_stackref.h"      // PyStackRef_AsPyObjectBorrow()
#include "pycore_tstate.h"        // _PyThreadStateImpl

#define _PyPerfBase_CODE_SIZE size_t
#define _PyPerfBase_BEFORE_HOOK(interp) _Py_Executors_InvalidateAll(interp, 1)
#define _PyPerfBase_LAST_FRAME(tstate) ((tstate)->base_frame)
/* The margin is larger than an area and an evaluator. */
#define _PyPerfBase_MAY_ENTER(tstate) \
    (!_Py_ReachedRecursionLimitWithMargin(tstate, 1))
#define _PyPerfBase_STACK_LIMIT(tstate) \
    (((_PyThreadStateImpl *)(tstate))->c_stack_soft_limit)
#define _PyPerfBase_HASH(bytes, length) Py_HashBuffer(bytes, length)
#define _PyPerfBase_TAIL_CALLS _Py_TAIL_CALL_INTERP
/* Threads without a GIL have copies of their own. */
#define _PyPerfBase_BYTECODE(frame) _PyFrame_GetBytecode(frame)
#define _PyPerfBase_ENTRY_OWNER FRAME_OWNED_BY_INTERPRETER
#define _PyPerfBase_ENTRY_FRAME entry.frame
#define _PyPerfBase_NO_STACK(frame) .stackpointer = (frame)->localsplus,
#define _PyPerfBase_OBJECT(reference) PyStackRef_AsPyObjectBorrow(reference)
#define _PyPerfBase_REFERENCE(object) PyStackRef_FromPyObjectSteal(object)
#define _PyPerfBase_GENERATOR_FRAME(generator) (&(generator)->gi_iframe)
#define _PyPerfBase_GENERATOR(frame) _PyGen_GetGeneratorFromFrame(frame)

#endif /* !Py_INTERNAL_PERF_FACTS_H */
