/* What the examples do with an answer: go on if it is right, else say what went wrong, and end with 1. */
#ifndef UMBRA_EXAMPLES_CHECK_H
#define UMBRA_EXAMPLES_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "umbra.h"

/* What is being done, or which process does it: opens every complaint. */
static const char *doing = "";

/* Ends the program with the whole story if a call failed. */
static void must(int code)
{
    char detail[512] = "";
    if (code == 0)
        return;
    umbra_error_detail(detail, sizeof detail, NULL);
    fprintf(stderr, "%s: error %d: %s\n", doing, -code, detail);
    exit(1);
}

static void check(int holds, const char *statement)
{
    if (holds)
        return;
    fprintf(stderr, "%s: not so: %s\n", doing, statement);
    exit(1);
}

/* Ends the program unless a statement holds. */
#define CHECK(statement) check((statement), #statement)

#endif
