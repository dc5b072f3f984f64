/* Python's stable interface of 3.10: one wheel of a platform serves all versions. */

#ifndef KTRACE_MODULE_H
#define KTRACE_MODULE_H

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

/* Raised with every change of what Python calls: `ktrace/native/__init__.py` takes no other build. */
#define INTERFACE 3

/* Grows an array to so many items. Returns 0 if there is no memory; then they are where they were. */
static inline int grow(void **items, size_t count, size_t size) {
    void *grown = count > PY_SSIZE_T_MAX / size ? NULL : PyMem_Realloc(*items, count * size);
    if (grown)
        *items = grown;
    return grown != NULL;
}

/* The values of an array of one dimension, which stay where they are while `object` lives. */
typedef struct {
    void *values; /* only of results is it written there */
    Py_ssize_t count;
} Array;

/* `formats` are the letters that the array's values may have in Python's `struct`, `width` their bytes. Returns 0 with a
   TypeError or ValueError that begins with `name`. */
int read_array(PyObject *object, const char *name, const char *formats, Py_ssize_t width, Array *array);

/* The same of an array that is filled: ValueError if it can't be written. */
int read_results(PyObject *object, const char *name, const char *formats, Py_ssize_t width, Array *array);

/* Whole numbers, signed or not: the letters of 64 bits differ between platforms. */
#define SIGNED "lq"
#define UNSIGNED "LQ"

int add_events(PyObject *module);
PyObject *encode(PyObject *module, PyObject *args);
PyObject *enclosing(PyObject *module, PyObject *args);
PyObject *lanes(PyObject *module, PyObject *args);

#endif
