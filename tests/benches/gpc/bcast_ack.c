// A broadcast down and a reduction up, timed where they start: bcast_ack BYTES CALLS SECONDS BYTES_OF_REDUCTION FORM.
// The form is 0, or 1 for MPI_Ibcast and MPI_Ireduce. Ends after so many seconds if the calls take longer; the first byte of a
// broadcast says that it is the last one.
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Seconds of calls before one is timed: until the system has dealt the processes to the processors.
static const double WARM = 0.5;

static void broadcast(char *data, int bytes, int form) {
    MPI_Request request;
    if (form == 0) {
        MPI_Bcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        return;
    }
    MPI_Ibcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void reduce(long *own, long *all, int words, int form) {
    MPI_Request request;
    if (form == 0) {
        MPI_Reduce(own, all, words, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        return;
    }
    MPI_Ireduce(own, all, words, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Makes so many calls, at least one, and no more after this time; how many there were. Times are kept where there is memory.
static int make(char *data, int bytes, int calls, double until, double *took, long *own, long *all, int words, int form) {
    int rank, size, made = 0, last = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    while (!last) {
        double start = MPI_Wtime();
        if (rank == 0) data[0] = made + 1 >= calls || start >= until;
        broadcast(data, bytes, form);
        last = data[0];
        reduce(own, all, words, form);
        if (took) took[made] = (MPI_Wtime() - start) * 1e6;
        made++;
        if (rank == 0 && all[words - 1] != size) MPI_Abort(MPI_COMM_WORLD, 3);
    }
    return made;
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int bytes = argc > 1 ? atoi(argv[1]) : 8, calls = argc > 2 ? atoi(argv[2]) : 1000;
    double seconds = argc > 3 ? atof(argv[3]) : 10;
    int words = argc > 4 ? atoi(argv[4]) / 8 : 1, form = argc > 5 ? atoi(argv[5]) : 0;
    if (bytes < 1) bytes = 1;
    if (words < 1) words = 1;
    if (calls < 1) calls = 1;
    char *data = calloc(1, bytes);
    long *own = malloc(words * sizeof *own), *all = calloc(words, sizeof *all);
    for (int word = 0; word < words; word++) own[word] = 1;
    double *took = calloc(calls, sizeof *took), total = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    make(data, bytes, INT_MAX, MPI_Wtime() + WARM, NULL, own, all, words, form);
    int made = make(data, bytes, calls, MPI_Wtime() + seconds, took, own, all, words, form);
    if (rank == 0) {
        for (int call = 0; call < made; call++) total += took[call];
        qsort(took, made, sizeof *took, ascending);
        printf("%.3f %.3f\n", took[made / 2], total / made);
    }
    free(data);
    free(own);
    free(all);
    free(took);
    MPI_Finalize();
    return 0;
}
