/* Python's stable interface of 3.10: one wheel of a platform serves all versions. */

#ifndef KTRACE_MODULE_H
#define KTRACE_MODULE_H

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

int add_events(PyObject *module);
PyObject *join_words(PyObject *module, PyObject *args);
PyObject *lanes(PyObject *module, PyObject *args);

#endif
