/* Joins columns of machine words into messages: converters/perfetto/writing/message_columns.py does it with numpy. */

#include "module.h"

#include <stdint.h>
#include <string.h>

/* Words and how many bytes of each count, a row after the other; a step of 0 repeats the first. */
typedef struct {
    const unsigned char *words, *lengths;
    Py_ssize_t word_step, length_step;
} Field;

static int read_fields(PyObject *list, Field *fields, Py_ssize_t count) {
    for (Py_ssize_t number = 0; number < count; number++) {
        long long words, lengths;
        Field *field = &fields[number];
        if (!PyArg_ParseTuple(PyList_GetItem(list, number), "LnLn", &words, &field->word_step, &lengths,
                              &field->length_step))
            return 0;
        field->words = (const unsigned char *)(intptr_t)words;
        field->lengths = (const unsigned char *)(intptr_t)lengths;
    }
    return 1;
}

/* A word is written whole, and the next one over its surplus bytes; the buffer has eight bytes more at its end. */
static void join(Field *fields, Py_ssize_t count, Py_ssize_t rows, unsigned char *at) {
    for (Py_ssize_t row = 0; row < rows; row++)
        for (Field *field = fields; field < fields + count; field++) {
            memcpy(at, field->words, 8);
            at += *field->lengths;
            field->words += field->word_step;
            field->lengths += field->length_step;
        }
}

/* join_words(fields, rows, buffer): [(address of words, step, address of lengths, step)], address of the bytes. */
PyObject *join_words(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *list;
    Py_ssize_t rows;
    long long buffer;
    if (!PyArg_ParseTuple(args, "O!nL:join_words", &PyList_Type, &list, &rows, &buffer))
        return NULL;
    Py_ssize_t count = PyList_Size(list);
    Field *fields = PyMem_Calloc((size_t)count + 1, sizeof(Field));
    if (!fields)
        return PyErr_NoMemory();
    int read = read_fields(list, fields, count);
    if (read) {
        Py_BEGIN_ALLOW_THREADS
        join(fields, count, rows, (unsigned char *)(intptr_t)buffer);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(fields);
    if (!read)
        return NULL;
    Py_RETURN_NONE;
}
