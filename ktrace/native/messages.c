/* Encodes protobuf messages, a row after the other: converters/perfetto/writing/fields.py describes their fields. */

#include "module.h"

#include <string.h>

/* Bytes that may be written, or read from a piece, beyond the end: short copies are of a fixed size. */
#define SURPLUS 16

/* Messages in messages. */
#define MOST_DEEP 16

enum { CONSTANT, VARINT, FIXED, CODED, TEXT, MESSAGE, KINDS };

/* Bytes that all rows have; short ones are in `start`, too. */
typedef struct {
    const char *bytes;
    Py_ssize_t size;
    unsigned char start[SURPLUS];
} Constant;

typedef struct Field {
    int kind;
    Constant first, second; /* the tag, and what a message begins with */
    const uint64_t *values;  /* of numbers */
    const int32_t *codes;    /* of coded pieces; negative is none */
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

/* ---- what Python hands over: 0 is an exception, for what can't be right ---- */

static void begin_constant(Constant *constant) {
    memcpy(constant->start, constant->bytes, (size_t)(constant->size < SURPLUS ? constant->size : SURPLUS));
}

/* As `read_array`, an array of so many values. */
static int read_values(PyObject *object, const char *name, const char *formats, Py_ssize_t width, Py_ssize_t count,
                       const void **values) {
    Array array;
    if (!read_array(object, name, formats, width, &array))
        return 0;
    if (array.count != count) {
        PyErr_Format(PyExc_ValueError, "%s: %zd values for %zd rows", name, array.count, count);
        return 0;
    }
    *values = array.values;
    return 1;
}

/* Pieces of data, each from one offset to the next: `least` offsets at least, `surplus` bytes after the last piece. */
static int read_pieces(Field *field, PyObject *offsets, PyObject *data, Py_ssize_t least, Py_ssize_t surplus) {
    Array bounds, bytes;
    if (!read_array(offsets, "offsets", SIGNED, sizeof(int64_t), &bounds) ||
        !read_array(data, "data", "B", 1, &bytes))
        return 0;
    field->offsets = bounds.values;
    field->data = bytes.values;
    if (bounds.count < least) {
        PyErr_Format(PyExc_ValueError, "offsets: %zd, and %zd are needed", bounds.count, least);
        return 0;
    }
    int64_t before = 0;
    for (Py_ssize_t number = 0; number < bounds.count; before = field->offsets[number++])
        if (field->offsets[number] < before) {
            PyErr_Format(PyExc_ValueError, "offsets: %lld after %lld", (long long)field->offsets[number],
                         (long long)before);
            return 0;
        }
    if (before > bytes.count - surplus) {
        PyErr_Format(PyExc_ValueError, "data: %zd bytes, and %lld are needed", bytes.count,
                     (long long)before + surplus);
        return 0;
    }
    return 1;
}

/* The codes of pieces, each below the number of pieces. */
static int read_codes(Field *field, PyObject *codes, PyObject *offsets, PyObject *data, Py_ssize_t rows) {
    int32_t most = -1;
    if (!read_values(codes, "codes", "il", sizeof(int32_t), rows, (const void **)&field->codes))
        return 0;
    for (Py_ssize_t row = 0; row < rows; row++)
        most = field->codes[row] > most ? field->codes[row] : most;
    return read_pieces(field, offsets, data, (Py_ssize_t)most + 2, SURPLUS);
}

static int read_fields(PyObject *list, Py_ssize_t rows, int depth, Field **fields, Py_ssize_t *count);

/* (kind, first, second, values or codes, offsets, data, valid, fields of a message); what a kind doesn't have is None */
static int read_field(PyObject *tuple, Py_ssize_t rows, int depth, Field *field) {
    PyObject *values, *offsets, *data, *valid, *inner;
    Constant *first = &field->first, *second = &field->second;
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "fields: not a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(tuple, "iy#y#OOOOO!:field", &field->kind, &first->bytes, &first->size, &second->bytes,
                          &second->size, &values, &offsets, &data, &valid, &PyList_Type, &inner) ||
        (valid != Py_None && !read_values(valid, "valid", "?B", 1, rows, (const void **)&field->valid)))
        return 0;
    begin_constant(first);
    begin_constant(second);
    switch (field->kind) {
    case CONSTANT:
        return 1;
    case VARINT:
    case FIXED:
        return read_values(values, "values", UNSIGNED, sizeof(uint64_t), rows, (const void **)&field->values);
    case CODED:
        return read_codes(field, values, offsets, data, rows);
    case TEXT:
        return read_pieces(field, offsets, data, rows + 1, 0);
    case MESSAGE:
        return read_fields(inner, rows, depth + 1, &field->inner, &field->inner_count);
    }
    PyErr_Format(PyExc_ValueError, "kind: %d", field->kind);
    return 0;
}

static int read_fields(PyObject *list, Py_ssize_t rows, int depth, Field **fields, Py_ssize_t *count) {
    if (depth > MOST_DEEP) {
        PyErr_SetString(PyExc_ValueError, "fields: nested too deeply");
        return 0;
    }
    Py_ssize_t length = PyList_Size(list);
    if (!(*fields = PyMem_Calloc((size_t)length + 1, sizeof(Field)))) {
        PyErr_NoMemory();
        return 0;
    }
    *count = length;
    for (Py_ssize_t number = 0; number < length; number++)
        if (!read_field(PyList_GetItem(list, number), rows, depth, *fields + number))
            return 0;
    return 1;
}

/* ---- sizes ---- */

static Py_ssize_t rows_with(const Field *field, Py_ssize_t rows) {
    if (!field->valid)
        return rows;
    Py_ssize_t count = 0;
    for (Py_ssize_t row = 0; row < rows; row++)
        count += field->valid[row] != 0;
    return count;
}

/* Adds so many times a size. Returns 0 if that is beyond all memory. */
static int add_bytes(Py_ssize_t *most, Py_ssize_t times, Py_ssize_t size) {
    if (size && times > (PY_SSIZE_T_MAX - *most) / size)
        return 0;
    *most += times * size;
    return 1;
}

/* Adds at least as many bytes as the fields take in all rows together. Returns 0 if that is beyond all memory. */
static int add_most(const Field *fields, Py_ssize_t count, Py_ssize_t rows, Py_ssize_t *most) {
    static const Py_ssize_t of_numbers[KINDS] = {[VARINT] = 10, [FIXED] = 8, [MESSAGE] = 10};
    for (const Field *field = fields; field < fields + count; field++) {
        Py_ssize_t times = rows_with(field, rows);
        if (!add_bytes(most, times, field->first.size) || !add_bytes(most, times, field->second.size) ||
            !add_bytes(most, times, of_numbers[field->kind]))
            return 0;
        if (field->kind == MESSAGE && !add_most(field->inner, field->inner_count, rows, most))
            return 0;
        if (field->kind == TEXT && !add_bytes(most, 1, (Py_ssize_t)(field->offsets[rows] - field->offsets[0])))
            return 0;
        for (Py_ssize_t row = 0; field->kind == CODED && row < rows; row++) {
            int32_t code = field->codes[row];
            if (code >= 0 && !add_bytes(most, 1, (Py_ssize_t)(field->offsets[code + 1] - field->offsets[code])))
                return 0;
        }
    }
    return 1;
}

/* ---- bytes ---- */

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
    char *seen; /* which rows `order` has */
} Part;

/* Whether the order has every row of every part once; else 0 with an exception. */
static int check_order(const Part *parts, Py_ssize_t count, const int64_t *order, Py_ssize_t length) {
    for (Py_ssize_t at = 0; at < length; at++) {
        uint64_t number = (uint64_t)order[at] >> 32, row = (uint64_t)order[at] & 0xFFFFFFFF;
        if (number >= (uint64_t)count || row >= (uint64_t)parts[number].rows || parts[number].seen[row]++) {
            PyErr_Format(PyExc_ValueError, "order: row %llu of part %llu is unknown, or comes twice",
                         (unsigned long long)row, (unsigned long long)number);
            return 0;
        }
    }
    return 1;
}

static PyObject *encoded(const Part *parts, Py_ssize_t count, const int64_t *order, Py_ssize_t length, int64_t *ends) {
    Py_ssize_t most = SURPLUS;
    for (Py_ssize_t number = 0; number < count; number++)
        if (!add_most(parts[number].fields, parts[number].count, parts[number].rows, &most))
            return PyErr_NoMemory();
    PyObject *bytes = PyByteArray_FromStringAndSize(NULL, most);
    if (!bytes)
        return NULL;
    unsigned char *start = (unsigned char *)PyByteArray_AsString(bytes), *at = start;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t number = 0; number < length; number++) {
        const Part *part = &parts[order[number] >> 32];
        at = put_row(part->fields, part->count, (Py_ssize_t)(order[number] & 0xFFFFFFFF), at);
        ends[number] = at - start;
    }
    Py_END_ALLOW_THREADS
    if (PyByteArray_Resize(bytes, at - start) < 0)
        Py_CLEAR(bytes);
    return bytes;
}

/* (rows, [field]); `left` are the rows that order has for this part and those after it. */
static int read_part(PyObject *tuple, Part *part, Py_ssize_t *left) {
    PyObject *fields;
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "parts: not a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(tuple, "nO!:part", &part->rows, &PyList_Type, &fields))
        return 0;
    if (part->rows < 0 || part->rows > *left) {
        PyErr_Format(PyExc_ValueError, "rows: %zd, and order has %zd", part->rows, *left);
        return 0;
    }
    *left -= part->rows;
    if (!(part->seen = PyMem_Calloc((size_t)part->rows + 1, 1))) {
        PyErr_NoMemory();
        return 0;
    }
    return read_fields(fields, part->rows, 0, &part->fields, &part->count);
}

/* encode([(rows, [field])], order: array of int64, ends: the same, which is filled) -> bytearray: the bytes of all messages;
   `ends` has where each ends. */
PyObject *encode(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *list, *entries, *results, *bytes = NULL;
    Array order, ends;
    if (!PyArg_ParseTuple(args, "O!OO:encode", &PyList_Type, &list, &entries, &results) ||
        !read_array(entries, "order", SIGNED, sizeof(int64_t), &order) ||
        !read_results(results, "ends", SIGNED, sizeof(int64_t), &ends))
        return NULL;
    if (ends.count != order.count)
        return PyErr_Format(PyExc_ValueError, "ends: %zd values for %zd rows", ends.count, order.count);
    Py_ssize_t count = PyList_Size(list), number = 0, left = order.count;
    Part *parts = PyMem_Calloc((size_t)count + 1, sizeof(Part));
    if (!parts)
        return PyErr_NoMemory();
    while (number < count && read_part(PyList_GetItem(list, number), &parts[number], &left))
        number++;
    if (number == count && left)
        PyErr_Format(PyExc_ValueError, "order: %zd rows more than the parts have", left);
    else if (number == count && check_order(parts, count, order.values, order.count))
        bytes = encoded(parts, count, order.values, order.count, ends.values);
    for (number = 0; number < count; number++) {
        free_fields(parts[number].fields, parts[number].count);
        PyMem_Free(parts[number].seen);
    }
    PyMem_Free(parts);
    return bytes;
}
