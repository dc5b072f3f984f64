/* Events of one shape as columns, which grow row by row. */

#ifndef KTRACE_COLUMNS_H
#define KTRACE_COLUMNS_H

#include "json_scan.h"
#include "texts.h"

/* What a column has: codes of any JSON values or of strings, or numbers. */
typedef enum { RAW, STRING, WHOLE, NUMBER, BOOLEAN, CLOCK } Kind;

/* States of a cell. */
enum { ABSENT, IS_WHOLE, IS_DOUBLE };

#define MOST_COLUMNS 256

/* Columns of times: ts and dur. */
#define MOST_CLOCKS 2

/* So many digits fit into 64 bits, whatever they are. */
#define MOST_DIGITS 19

typedef struct {
    char *key;
    size_t size;
    Kind kind;
    Texts texts;
    int32_t *codes;        /* RAW, STRING: -1 is absent; CLOCK: of the source's number where it was rounded, else -1 */
    int64_t *numbers;      /* the other kinds; the bits of a double where the state is IS_DOUBLE */
    unsigned char *states; /* the same */
} Column;

typedef struct {
    int tag_field;
    char *tag;
    size_t tag_size;
    Column *columns; /* members of the event, then of its args */
    int members, count;
    int phase;  /* the column of "ph"; -1: the tag is the phase */
    int id;     /* the column of "id"; -1: there is none */
    int folded; /* flows that have only `plain` columns and are no edges are counted and dropped */
    int64_t *ats; /* where each event begins in the document */
    Py_ssize_t rows, capacity;
    Py_ssize_t kept;              /* rows before this text */
    int32_t known[MOST_COLUMNS];  /* distinct texts before it */
    uint64_t seen[MOST_COLUMNS / 64], plain[MOST_COLUMNS / 64];
    int rounded;                  /* times of the last row that lost digits */
    struct {
        Text text;
        size_t size;
    } own[MOST_CLOCKS]; /* what the source has for them */
} Shape;

static inline int is_coded(const Column *column) {
    return column->kind == RAW || column->kind == STRING;
}

/* Says of rows of a column of times that none was rounded. */
static inline void clear_codes(Column *column, Py_ssize_t first, Py_ssize_t stop) {
    if (column->kind == CLOCK && column->codes && stop > first)
        memset(column->codes + first, -1, (size_t)(stop - first) * sizeof(int32_t));
}

/* Grows the columns by a row if they are full. Returns 0 if there is no memory. */
static int grow_columns(Shape *shape) {
    if (shape->rows < shape->capacity)
        return 1;
    Py_ssize_t capacity = shape->capacity ? 2 * shape->capacity : 256;
    int made = grow((void **)&shape->ats, capacity, sizeof(int64_t));
    for (Column *column = shape->columns; made && column < shape->columns + shape->count; column++) {
        if (is_coded(column) || column->codes)
            made = grow((void **)&column->codes, capacity, sizeof(int32_t));
        if (made && !is_coded(column))
            made = grow((void **)&column->numbers, capacity, sizeof(int64_t)) &&
                   grow((void **)&column->states, capacity, 1);
        if (made)
            clear_codes(column, shape->capacity, capacity);
    }
    if (made)
        shape->capacity = capacity;
    return made;
}

/* Marks the cells of the last row that no value was put into. */
static inline void fill_row(Shape *shape, int values) {
    if (values == shape->count)
        return;
    for (int number = 0; number < shape->count; number++) {
        Column *column = &shape->columns[number];
        if (shape->seen[number >> 6] >> (number & 63) & 1)
            continue;
        if (is_coded(column)) {
            column->codes[shape->rows] = -1;
        } else {
            column->numbers[shape->rows] = 0;
            column->states[shape->rows] = ABSENT;
        }
    }
}

/* Whether the last row has values in plain columns alone. */
static inline int is_plain(const Shape *shape) {
    uint64_t others = 0;
    for (int word = 0; word < MOST_COLUMNS / 64; word++)
        others |= shape->seen[word] & ~shape->plain[word];
    return !others;
}

/* Begins a text, so that its rows can be taken back. */
static void begin_text(Shape *shape) {
    shape->kept = shape->rows;
    for (int number = 0; number < shape->count; number++)
        shape->known[number] = shape->columns[number].texts.count;
}

/* Takes the rows of a text back. */
static int take_back(Shape *shape) {
    for (int number = 0; number < shape->count; number++) {
        clear_codes(&shape->columns[number], shape->kept, shape->capacity);
        if (!forget_texts(&shape->columns[number].texts, shape->known[number]))
            return 0;
    }
    shape->rows = shape->kept;
    return 1;
}

static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* The nearest double of a number. Returns 0 if it is beyond all doubles, or too long. */
static inline int to_double(const Number *number, Text text, size_t size, double *value) {
    int exponent = number->exponent - number->decimals;
    if (number->count <= 15 && exponent >= -22 && exponent <= 22) { /* both factors are exact, so is one rounding */
        double digits = (double)number->digits;
        digits = exponent < 0 ? digits / TENS[-exponent] : digits * TENS[exponent];
        *value = number->negative ? -digits : digits;
        return 1;
    }
    char copy[64];
    if (size >= sizeof(copy))
        return 0;
    memcpy(copy, text, size);
    copy[size] = 0;
    *value = PyOS_string_to_double(copy, NULL, NULL);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return *value - *value == 0; /* neither infinite nor NaN */
}

/* Microseconds in nanoseconds, digits below 1 ns rounded half to even. Returns 1 if they are exact, -1 if digits were lost,
   and 0 if the number is rare, or beyond int64. */
static inline int to_nanoseconds(const Number *number, int64_t *value) {
    static const uint64_t by[] = {1000, 100, 10, 1};
    if (number->exponent || number->count > MOST_DIGITS || number->decimals > MOST_DIGITS)
        return 0;
    uint64_t size = number->digits, rest = 0;
    if (number->decimals <= 3) {
        if (size > (uint64_t)INT64_MAX / by[number->decimals])
            return 0;
        size *= by[number->decimals];
    } else {
        uint64_t above = 1;
        for (int digit = 3; digit < number->decimals; digit++)
            above *= 10;
        rest = size % above;
        size = size / above;
        size += 2 * rest > above || (2 * rest == above && size & 1);
    }
    *value = number->negative ? -(int64_t)size : (int64_t)size;
    return rest ? -1 : 1;
}

static inline int to_whole(const Number *number, int64_t *value) {
    if (!number->whole || number->count > MOST_DIGITS || number->digits > INT64_MAX ||
        (number->negative && !number->digits))
        return 0;
    *value = number->negative ? -(int64_t)number->digits : (int64_t)number->digits;
    return 1;
}

/* Keeps what the source has for a time that was rounded, in the last row. Returns 0 if there is no memory. */
static int keep_number(Shape *shape, Column *column, Text text, size_t size) {
    if (!column->codes) {
        if (!grow((void **)&column->codes, shape->capacity, sizeof(int32_t)))
            return 0;
        clear_codes(column, 0, shape->capacity);
    }
    if (shape->rounded == MOST_CLOCKS || (column->codes[shape->rows] = code_of(&column->texts, text, size)) < 0)
        return 0;
    shape->own[shape->rounded].text = text;
    shape->own[shape->rounded++].size = size;
    return 1;
}

/* Puts the value that begins here into a column's last row. Returns the position after it; NULL as in json_scan.h. */
static inline Text put_value(Shape *shape, Column *column, Text at, Text end) {
    Py_ssize_t row = shape->rows;
    Text start = at;
    Number number;
    if (is_coded(column)) {
        if (column->kind == STRING && *at != '"')
            return NULL;
        if (!(at = *at == '"' ? skip_string(at, end) : skip_value(at, end, 0)))
            return NULL;
        int32_t code = code_of(&column->texts, start, (size_t)(at - start));
        column->codes[row] = code;
        return code < 0 ? NULL : at;
    }
    unsigned char state = IS_WHOLE;
    int64_t value = 0;
    if (column->kind == BOOLEAN) {
        value = *at == 't';
        at = skip_word(at, value ? "true" : "false", value ? 4 : 5);
    } else if (!(at = skip_number(at, &number))) {
        return NULL;
    } else if (column->kind == CLOCK) {
        int exact = to_nanoseconds(&number, &value);
        if (!exact || (exact < 0 && !keep_number(shape, column, start, (size_t)(at - start))))
            return NULL;
    } else if (column->kind == WHOLE || number.whole) {
        if (!to_whole(&number, &value))
            return NULL;
    } else {
        double real;
        if (!to_double(&number, start, (size_t)(at - start), &real))
            return NULL;
        memcpy(&value, &real, sizeof(value));
        state = IS_DOUBLE;
    }
    column->numbers[row] = value;
    column->states[row] = state;
    return at;
}

static void free_shape(Shape *shape) {
    for (int number = 0; shape->columns && number < shape->count; number++) {
        Column *column = &shape->columns[number];
        PyMem_Free(column->key);
        PyMem_Free(column->codes);
        PyMem_Free(column->numbers);
        PyMem_Free(column->states);
        free_texts(&column->texts);
    }
    PyMem_Free(shape->columns);
    PyMem_Free(shape->tag);
    PyMem_Free(shape->ats);
}

#endif
