/* Python's stable interface of 3.10: one wheel of a platform serves all versions. */

#ifndef KTRACE_MODULE_H
#define KTRACE_MODULE_H

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Makes room for so many items. Returns 0 if there is no memory; then they are where they were. */
static inline int grow(void **items, size_t count, size_t size) {
    void *grown = count > PY_SSIZE_T_MAX / size ? NULL : PyMem_Realloc(*items, count * size);
    if (grown)
        *items = grown;
    return grown != NULL;
}

int add_events(PyObject *module);
PyObject *encode(PyObject *module, PyObject *args);
PyObject *lanes(PyObject *module, PyObject *args);

#endif
