#ifndef Py_CPYTHON_SYSMODULE_H
#  error "this header file must not be included directly"
#endif

/* Native profiling: the file /tmp/perf-PID.map, and labels for functions.
 * The functions exist on every platform.  See Doc/c-api/perfmaps.rst. */

/* Open this process's perf map file.  Does nothing when it is open.
 * Needs no GIL.  Return 0, -1 with errno set when the file cannot be opened;
 * -2, "no lock", is reserved and never returned. */
PyAPI_FUNC(int) PyUnstable_PerfMapState_Init(void);

/* Add one line to the map, opening it when needed.  Control characters in
 * name, and what is not UTF-8, are escaped.  Needs no GIL, may be called from
 * any thread.
 * Return 0, or -1 with errno set: the line is not in the file. */
PyAPI_FUNC(int) PyUnstable_WritePerfMapEntry(const void *code_addr,
                                             unsigned int code_size,
                                             const char *entry_name);

/* Close the map file; it stays in place.  Needs no GIL. */
PyAPI_FUNC(void) PyUnstable_PerfMapState_Fini(void);

/* Append the content of another process's map to this one's, which is opened
 * when needed.  Needs no GIL.  Return 0, or -1 with errno set. */
PyAPI_FUNC(int) PyUnstable_CopyPerfMapFile(const char *parent_filename);

/* Give code its label and announce its symbol now rather than at its first
 * call: before a fork, all children share it.  Does nothing while no
 * interpreter of the process has the trampoline on.  Call with the GIL held.
 * Return 0, or -1 when the symbol could not be announced; no exception is
 * set. */
PyAPI_FUNC(int) PyUnstable_PerfTrampoline_CompileCode(PyCodeObject *code);

/* Accepted for the sake of programs written for newer versions.  Labels always
 * persist: a child's own map starts with everything it inherits.  Return 0. */
PyAPI_FUNC(int) PyUnstable_PerfTrampoline_SetPersistAfterFork(int enable);
