/* What the examples do with an answer: go on if it is right, else say what went wrong, and end all processes, since others may
 * wait for this one. */
#ifndef UMBRA_MPI_EXAMPLES_CHECK_H
#define UMBRA_MPI_EXAMPLES_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "umbra_mpi.h"

/* What is being done: opens every complaint. */
static const char *doing = "";

/* Ends all with the code of a call that failed, after its whole story. */
static void must(int code)
{
    char detail[512] = "";
    if (code == 0)
        return;
    umbra_error_detail(detail, sizeof detail, NULL);
    fprintf(stderr, "%s: error %d: %s\n", doing, -code, detail);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, -code);
}

static void check(int holds, const char *statement)
{
    if (holds)
        return;
    fprintf(stderr, "%s: not so: %s\n", doing, statement);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Ends all unless a statement holds. */
#define CHECK(statement) check((statement), #statement)

/* Whether the story of the last failure has these words. */
static inline int told(const char *words)
{
    char detail[512] = "";
    must(umbra_error_detail(detail, sizeof detail, NULL));
    if (strstr(detail, words) != NULL)
        return 1;
    fprintf(stderr, "%s: \"%s\" is not in: %s\n", doing, words, detail);
    return 0;
}

#endif
