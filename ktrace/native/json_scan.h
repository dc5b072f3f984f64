/* Scans JSON values strictly, as RFC 8259 defines them, without building anything.

   Every function takes the position where a value begins and returns the position after it, or NULL if the text isn't
   valid there or is rarer than this code cares for: the caller then leaves the text to the reader in Python. The text
   ends with a zero byte, which is part of no valid value, so no function needs to compare with the end. */

#ifndef KTRACE_JSON_SCAN_H
#define KTRACE_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef const unsigned char *Text;

/* Deepest nesting of a value. */
#define MOST_DEEP 64

#define EACH_BYTE(byte) (0x0101010101010101u * (uint64_t)(byte))
#define ZERO_BYTES(word) (((word) - EACH_BYTE(1)) & ~(word) & EACH_BYTE(0x80))

static inline Text skip_blank(Text at) {
    while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')
        at++;
    return at;
}

static inline int is_digit(unsigned char byte) {
    return (unsigned)(byte - '0') < 10u;
}

static inline int hex_value(unsigned char byte) {
    if (is_digit(byte))
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* The position after an escape. Halves of surrogate pairs are rare: NULL. */
static inline Text skip_escape(Text at) {
    if (at[1] != 'u')
        return at[1] && strchr("\"\\/bfnrt", at[1]) ? at + 2 : NULL;
    unsigned code = 0;
    for (int digit = 2; digit < 6; digit++) {
        int value = hex_value(at[digit]);
        if (value < 0)
            return NULL;
        code = code << 4 | (unsigned)value;
    }
    return code >= 0xD800 && code < 0xE000 ? NULL : at + 6;
}

/* A string from its quote on. `end`: the text's end, since eight bytes are looked at together. */
static inline Text skip_string(Text at, Text end) {
    at++;
    for (;;) {
        while (end - at >= 8) {
            uint64_t word;
            memcpy(&word, at, 8);
            uint64_t found = ZERO_BYTES(word ^ EACH_BYTE('"')) | ZERO_BYTES(word ^ EACH_BYTE('\\'));
            found |= (word - EACH_BYTE(0x20)) & ~word & EACH_BYTE(0x80); /* control characters */
            if (found)
                break;
            at += 8;
        }
        while (*at >= 0x20 && *at != '"' && *at != '\\')
            at++;
        if (*at == '"')
            return at + 1;
        if (*at != '\\' || !(at = skip_escape(at)))
            return NULL;
    }
}

/* What a number's text says: sign, digits without the point, decimals, exponent. */
typedef struct {
    uint64_t digits;
    int count;    /* of digits, without leading zeros; beyond 19 `digits` isn't exact */
    int decimals; /* digits after the point */
    int exponent;
    int negative;
    int whole; /* neither a point nor an exponent */
} Number;

static inline Text skip_number(Text at, Number *number) {
    number->negative = *at == '-';
    at += number->negative;
    uint64_t digits = 0;
    int count = 0;
    if (!is_digit(*at) || (*at == '0' && is_digit(at[1])))
        return NULL;
    for (; is_digit(*at); at++) {
        digits = digits * 10 + (*at - '0');
        count += count || *at != '0';
    }
    number->decimals = number->exponent = 0;
    number->whole = 1;
    if (*at == '.') {
        number->whole = 0;
        Text first = ++at;
        for (; is_digit(*at); at++) {
            digits = digits * 10 + (*at - '0');
            count += count || *at != '0';
        }
        if (at == first || at - first > 1000)
            return NULL;
        number->decimals = (int)(at - first);
    }
    if (*at == 'e' || *at == 'E') {
        number->whole = 0;
        int sign = at[1] == '-' ? -1 : 1;
        at += at[1] == '-' || at[1] == '+' ? 2 : 1;
        Text first = at;
        int exponent = 0;
        for (; is_digit(*at) && at - first < 4; at++)
            exponent = exponent * 10 + (*at - '0');
        if (at == first || is_digit(*at))
            return NULL;
        number->exponent = sign * exponent;
    }
    number->digits = digits;
    number->count = count;
    return at;
}

/* The colon after a key, and the blanks around it. */
static inline Text skip_colon(Text at) {
    at = skip_blank(at);
    return *at == ':' ? skip_blank(at + 1) : NULL;
}

static inline Text skip_word(Text at, const char *word, size_t size) {
    return strncmp((const char *)at, word, size) ? NULL : at + size;
}

static Text skip_value(Text at, Text end, int depth);

/* The members of an object, or the elements of a list, from the opening bracket on. */
static inline Text skip_nested(Text at, Text end, int depth) {
    unsigned char close = *at == '{' ? '}' : ']';
    if (depth > MOST_DEEP)
        return NULL;
    at = skip_blank(at + 1);
    if (*at == close)
        return at + 1;
    for (;;) {
        if (close == '}') {
            if (*at != '"' || !(at = skip_string(at, end)) || !(at = skip_colon(at)))
                return NULL;
        }
        if (!(at = skip_value(at, end, depth + 1)))
            return NULL;
        at = skip_blank(at);
        if (*at == close)
            return at + 1;
        if (*at++ != ',')
            return NULL;
        at = skip_blank(at);
    }
}

static Text skip_value(Text at, Text end, int depth) {
    Number number;
    switch (*at) {
    case '"':
        return skip_string(at, end);
    case '{':
    case '[':
        return skip_nested(at, end, depth);
    case 't':
        return skip_word(at, "true", 4);
    case 'f':
        return skip_word(at, "false", 5);
    case 'n':
        return skip_word(at, "null", 4);
    default:
        return skip_number(at, &number);
    }
}

#endif
