/* What the programs in the words of Dragon's core do with an answer, and how they hand bytes on to a child. */
#ifndef UMBRA_EXAMPLES_DRAGON_CHECK_H
#define UMBRA_EXAMPLES_DRAGON_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "umbra_dragon.h"

/* Ends the program with the whole story unless a call returned this. */
static void expect(dragonError_t code, dragonError_t expected, const char *call, int line)
{
    char *story;
    if (code == expected)
        return;
    story = dragon_getlasterrstr();
    fprintf(stderr, "line %d: %s is %s, not %s: %s\n", line, call, dragon_get_rc_string(code), dragon_get_rc_string(expected),
            story == NULL ? "" : story);
    free(story);
    exit(1);
}

#define IS(expected, call) expect(call, DRAGON_##expected, #call, __LINE__)
#define OK(call) IS(SUCCESS, call)

static void check(int holds, const char *statement, int line)
{
    if (holds)
        return;
    fprintf(stderr, "line %d: not so: %s\n", line, statement);
    exit(1);
}

#define CHECK(statement) check((statement), #statement, __LINE__)

static void put(int to, const dragonSerial_t *serial)
{
    CHECK(write(to, &serial->len, sizeof serial->len) == (ssize_t)sizeof serial->len);
    CHECK(write(to, serial->data, serial->len) == (ssize_t)serial->len);
}

static dragonSerial_t get(int from)
{
    dragonSerial_t serial;
    CHECK(read(from, &serial.len, sizeof serial.len) == (ssize_t)sizeof serial.len);
    CHECK((serial.data = malloc(serial.len)) != NULL);
    CHECK(read(from, serial.data, serial.len) == (ssize_t)serial.len);
    return serial;
}

#endif
