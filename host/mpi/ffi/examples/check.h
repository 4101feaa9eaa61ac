/* What the examples do with an answer: as those of umbra.h, but whoever has to complain ends all processes, since others may wait
 * for this one. */
#ifndef UMBRA_MPI_EXAMPLES_CHECK_H
#define UMBRA_MPI_EXAMPLES_CHECK_H

#include "umbra_mpi.h"

#define END(code) (fflush(stderr), MPI_Abort(MPI_COMM_WORLD, code))
#include "../../../../ffi/examples/check.h"

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
