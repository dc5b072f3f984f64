/* Encodes protobuf messages, a row after the other: `row_bytes` of converters/perfetto/writing/fields.py does the same. */

#include "module.h"

#include <stdint.h>
#include <string.h>

/* Bytes that may be written, or read from a piece, beyond the end: short copies are of a fixed size. */
#define SURPLUS 16

enum { CONSTANT, VARINT, NUMBER, FIXED, CODED, TEXT, MESSAGE };

/* Bytes that all rows have; short ones are in `start`, too. */
typedef struct {
    const char *bytes;
    Py_ssize_t size;
    unsigned char start[SURPLUS];
} Constant;

typedef struct Field {
    int kind;
    Constant first, second; /* the tag or prefix, and what begins the field's content */
    const uint64_t *values;  /* of numbers */
    const int32_t *codes;    /* of coded pieces; -1 is none */
    const int64_t *offsets;  /* of pieces by code, of texts by row */
    const unsigned char *data;
    const uint8_t *valid; /* NULL: all rows have the field */
    struct Field *inner;
    Py_ssize_t inner_count;
} Field;

static void free_fields(Field *fields, Py_ssize_t count) {
    for (Py_ssize_t number = 0; fields && number < count; number++)
        free_fields(fields[number].inner, fields[number].inner_count);
    PyMem_Free(fields);
}

static int read_fields(PyObject *list, Field **fields, Py_ssize_t *count);

/* (kind, first, second, address of values or codes, of offsets, of data, of valid, fields of a message) */
static int read_field(PyObject *tuple, Field *field) {
    long long values, offsets, data, valid;
    PyObject *inner;
    Constant *first = &field->first, *second = &field->second;
    if (!PyArg_ParseTuple(tuple, "iy#y#LLLLO!", &field->kind, &first->bytes, &first->size, &second->bytes,
                          &second->size, &values, &offsets, &data, &valid, &PyList_Type, &inner))
        return 0;
    memcpy(first->start, first->bytes, (size_t)(first->size < SURPLUS ? first->size : SURPLUS));
    memcpy(second->start, second->bytes, (size_t)(second->size < SURPLUS ? second->size : SURPLUS));
    field->values = (const uint64_t *)(intptr_t)values;
    field->codes = (const int32_t *)(intptr_t)values;
    field->offsets = (const int64_t *)(intptr_t)offsets;
    field->data = (const unsigned char *)(intptr_t)data;
    field->valid = (const uint8_t *)(intptr_t)valid;
    return read_fields(inner, &field->inner, &field->inner_count);
}

static int read_fields(PyObject *list, Field **fields, Py_ssize_t *count) {
    *count = PyList_Size(list);
    *fields = PyMem_Calloc((size_t)*count + 1, sizeof(Field));
    if (!*fields) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t number = 0; number < *count; number++)
        if (!read_field(PyList_GetItem(list, number), *fields + number))
            return 0;
    return 1;
}

static Py_ssize_t rows_with(const Field *field, Py_ssize_t rows) {
    if (!field->valid)
        return rows;
    Py_ssize_t count = 0;
    for (Py_ssize_t row = 0; row < rows; row++)
        count += field->valid[row];
    return count;
}

/* At least as many bytes as the fields take in all rows together. */
static Py_ssize_t most_bytes(const Field *fields, Py_ssize_t count, Py_ssize_t rows) {
    static const Py_ssize_t of_numbers[MESSAGE + 1] = {[VARINT] = 10, [NUMBER] = 20, [FIXED] = 8, [MESSAGE] = 10};
    Py_ssize_t most = 0;
    for (const Field *field = fields; field < fields + count; field++) {
        most += rows_with(field, rows) * (field->first.size + field->second.size + of_numbers[field->kind]);
        if (field->kind == MESSAGE)
            most += most_bytes(field->inner, field->inner_count, rows);
        if (field->kind == TEXT)
            most += (Py_ssize_t)(field->offsets[rows] - field->offsets[0]);
        if (field->kind == CODED)
            for (Py_ssize_t row = 0; row < rows; row++)
                if (field->codes[row] >= 0)
                    most += field->offsets[field->codes[row] + 1] - field->offsets[field->codes[row]];
    }
    return most;
}

static inline unsigned char *put_varint(unsigned char *at, uint64_t value) {
    while (value > 127) {
        *at++ = (unsigned char)(value | 128);
        value >>= 7;
    }
    *at++ = (unsigned char)value;
    return at;
}

static inline int varint_size(uint64_t value) {
    int size = 1;
    while (value >>= 7)
        size++;
    return size;
}

static inline unsigned char *put_bytes(unsigned char *at, const void *bytes, Py_ssize_t size) {
    memcpy(at, bytes, (size_t)size);
    return at + size;
}

static inline unsigned char *put_constant(unsigned char *at, const Constant *constant) {
    if (constant->size > SURPLUS)
        return put_bytes(at, constant->bytes, constant->size);
    memcpy(at, constant->start, SURPLUS);
    return at + constant->size;
}

/* Bytes of a table, which has SURPLUS bytes more at its end. */
static inline unsigned char *put_piece(unsigned char *at, const unsigned char *bytes, Py_ssize_t size) {
    if (size <= SURPLUS)
        memcpy(at, bytes, SURPLUS);
    else
        memcpy(at, bytes, (size_t)size);
    return at + size;
}

static unsigned char *put_row(const Field *fields, Py_ssize_t count, Py_ssize_t row, unsigned char *at);

static inline unsigned char *put_message(const Field *field, Py_ssize_t row, unsigned char *at) {
    unsigned char *start = at + 1; /* most messages are so short that their length is a byte */
    at = put_constant(start, &field->second);
    at = put_row(field->inner, field->inner_count, row, at);
    uint64_t size = (uint64_t)(at - start);
    int more = varint_size(size) - 1;
    if (more)
        memmove(start + more, start, size);
    put_varint(start - 1, size);
    return at + more;
}

static unsigned char *put_row(const Field *fields, Py_ssize_t count, Py_ssize_t row, unsigned char *at) {
    for (const Field *field = fields; field < fields + count; field++) {
        if ((field->valid && !field->valid[row]) || (field->kind == CODED && field->codes[row] < 0))
            continue;
        at = put_constant(at, &field->first);
        switch (field->kind) {
        case CONSTANT:
            break;
        case VARINT:
            at = put_varint(at, field->values[row]);
            break;
        case NUMBER:
            at = put_varint(at, (uint64_t)(field->second.size + varint_size(field->values[row])));
            at = put_constant(at, &field->second);
            at = put_varint(at, field->values[row]);
            break;
        case FIXED:
            at = put_bytes(at, &field->values[row], 8);
            break;
        case CODED: {
            const int64_t *offsets = &field->offsets[field->codes[row]];
            at = put_piece(at, field->data + offsets[0], (Py_ssize_t)(offsets[1] - offsets[0]));
            break;
        }
        case TEXT:
            at = put_bytes(at, field->data + field->offsets[row],
                           (Py_ssize_t)(field->offsets[row + 1] - field->offsets[row]));
            break;
        case MESSAGE:
            at = put_message(field, row, at);
        }
    }
    return at;
}

/* Parts in turn: each entry of `order` has the number of a part in its upper half, one of its rows in the lower one. */
typedef struct {
    Field *fields;
    Py_ssize_t count, rows;
} Part;

static PyObject *encoded(const Part *parts, Py_ssize_t count, const int64_t *order, Py_ssize_t length) {
    Py_ssize_t most = SURPLUS;
    for (Py_ssize_t number = 0; number < count; number++)
        most += most_bytes(parts[number].fields, parts[number].count, parts[number].rows);
    PyObject *bytes = PyByteArray_FromStringAndSize(NULL, most);
    if (!bytes)
        return NULL;
    unsigned char *start = (unsigned char *)PyByteArray_AsString(bytes), *at = start;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t number = 0; number < length; number++) {
        const Part *part = &parts[order[number] >> 32];
        at = put_row(part->fields, part->count, (Py_ssize_t)(order[number] & 0xFFFFFFFF), at);
    }
    Py_END_ALLOW_THREADS
    if (PyByteArray_Resize(bytes, at - start) < 0)
        Py_CLEAR(bytes);
    return bytes;
}

/* encode([(rows, [field])], address of order, length) -> bytearray: the bytes of all messages. */
PyObject *encode(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *list, *fields, *bytes = NULL;
    long long order;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "O!Ln:encode", &PyList_Type, &list, &order, &length))
        return NULL;
    Py_ssize_t count = PyList_Size(list), number = 0;
    Part *parts = PyMem_Calloc((size_t)count + 1, sizeof(Part));
    if (!parts)
        return PyErr_NoMemory();
    for (; number < count; number++) {
        Part *part = &parts[number];
        if (!PyArg_ParseTuple(PyList_GetItem(list, number), "nO!", &part->rows, &PyList_Type, &fields) ||
            !read_fields(fields, &part->fields, &part->count))
            break;
    }
    if (number == count)
        bytes = encoded(parts, count, (const int64_t *)(intptr_t)order, length);
    for (number = 0; number < count; number++)
        free_fields(parts[number].fields, parts[number].count);
    PyMem_Free(parts);
    return bytes;
}
